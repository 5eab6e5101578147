"""One module per page of the app."""
