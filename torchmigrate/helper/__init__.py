"""Where the runtime helper lies, and how a file imports it."""
