"""Our own files: graphs, splits and results as JSON, tables as plain text."""
