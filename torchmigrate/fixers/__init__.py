"""TODO torchmigrate.fixers."""
