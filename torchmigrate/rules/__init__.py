"""Model rules as data, and read them from TOML files."""
