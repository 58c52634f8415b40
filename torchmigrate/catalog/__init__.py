"""TODO torchmigrate.catalog."""
