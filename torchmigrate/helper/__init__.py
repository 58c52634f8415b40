"""Calls of the runtime helper from rewritten code: where the helper lies and how a file imports it."""
