"""The machine around a run: files, text for people, limits, locks, caches. Knows nothing of torch or of Python code."""
