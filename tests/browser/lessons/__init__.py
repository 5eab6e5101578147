"""Tests of the lessons in a real browser."""
