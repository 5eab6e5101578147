"""What leaves the app as a file, one module per format; each takes a `Subject` and returns text or bytes."""
