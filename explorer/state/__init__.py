"""What the app remembers: the session, the address, project files, and what survives a reload."""
