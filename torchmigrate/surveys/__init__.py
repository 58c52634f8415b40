"""What a project uses and what runs where, without rewriting it: catalog, portability, settings in force."""
