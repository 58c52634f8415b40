"""Rules about files that are not Python."""
