"""TODO torchmigrate.engine."""
