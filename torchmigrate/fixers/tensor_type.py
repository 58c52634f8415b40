"""TODO torchmigrate.fixers.tensor_type."""
