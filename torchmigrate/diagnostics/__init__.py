"""TODO torchmigrate.diagnostics."""
