"""TODO torchmigrate.fixers.compile."""
