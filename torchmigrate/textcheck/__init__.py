"""TODO torchmigrate.textcheck."""
