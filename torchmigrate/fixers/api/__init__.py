"""TODO torchmigrate.fixers.api."""
