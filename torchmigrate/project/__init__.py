"""TODO torchmigrate.project."""
