"""Tests: laws, known answers and brute force."""
