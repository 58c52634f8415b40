"""Formats of the portability report."""
