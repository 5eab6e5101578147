"""Every input of a question, defined once: its names, texts, limits and default, and how a question has it."""
