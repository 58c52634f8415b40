"""TODO torchmigrate.effective_config."""
