"""These modules decide where the runtime helper lies, and how a file imports it."""
