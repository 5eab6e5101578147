"""A question made ready to solve: contracted, pinned and bounded, with the reporter that judges plans."""
