"""Tests of `explorer.exports`."""
