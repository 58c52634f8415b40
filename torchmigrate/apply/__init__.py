"""TODO torchmigrate.apply."""
