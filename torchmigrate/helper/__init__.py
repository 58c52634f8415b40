"""TODO torchmigrate.helper."""
