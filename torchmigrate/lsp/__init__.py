"""Serve editors: the language server."""
