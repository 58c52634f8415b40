"""TODO torchmigrate.verify.process."""
