"""TODO torchmigrate.semantic."""
