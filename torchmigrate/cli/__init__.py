"""The command line: turn arguments into calls, and errors into messages and exit statuses."""
