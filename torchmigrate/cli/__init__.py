"""The command line: arguments to calls, errors to messages and exit statuses."""
