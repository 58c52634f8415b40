"""TODO torchmigrate.fixers.device."""
