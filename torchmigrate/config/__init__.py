"""TODO torchmigrate.config."""
