"""Rules as data: their model, and how TOML files become rules."""
