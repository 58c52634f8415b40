"""TODO torchmigrate.fixers.memory."""
