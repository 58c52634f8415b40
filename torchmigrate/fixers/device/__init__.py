"""Fixers for device strings, device arguments, availability tests and indices."""
