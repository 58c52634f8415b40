"""TODO torchmigrate.matching."""
