"""TODO torchmigrate.fixers.distributed."""
