"""Pieces of pages: tables, bars and charts that several pages show."""
