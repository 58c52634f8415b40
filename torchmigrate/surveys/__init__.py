"""TODO torchmigrate.surveys."""
