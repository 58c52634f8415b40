"""The check that every edit passes: original and rewritten project, evaluated abstractly in six worlds and compared."""
