"""TODO torchmigrate.verify.workspace."""
