"""TODO torchmigrate.formats."""
