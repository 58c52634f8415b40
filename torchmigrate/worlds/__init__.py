"""Check every edit: original and rewritten project are evaluated abstractly in six worlds, and compared."""
