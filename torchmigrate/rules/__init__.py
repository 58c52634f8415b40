"""TODO torchmigrate.rules."""
