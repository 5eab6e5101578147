"""The app in headless Chromium."""
