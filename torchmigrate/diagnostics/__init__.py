"""Hold findings with their fixes, the result of one file, and the comments that suppress findings."""
