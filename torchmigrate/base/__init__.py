"""Hold what all packages share: file access, user-facing text, limits, locks and caches. Nothing here knows torch."""
