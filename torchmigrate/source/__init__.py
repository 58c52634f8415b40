"""TODO torchmigrate.source."""
