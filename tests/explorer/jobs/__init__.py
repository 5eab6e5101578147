"""Tests of `explorer.jobs.pool`."""
