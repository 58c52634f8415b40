"""TODO torchmigrate.base."""
