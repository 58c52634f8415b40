"""TODO torchmigrate.rewriting."""
