"""Bring in profiles: graphs of layers with measured times of one training step."""
