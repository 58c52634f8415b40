"""TODO torchmigrate.fixers.hazard."""
