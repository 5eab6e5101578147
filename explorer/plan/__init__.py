"""The plan on the page: shown, scheduled, edited, solved anew."""
