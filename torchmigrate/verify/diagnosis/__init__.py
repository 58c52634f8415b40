"""TODO torchmigrate.verify.diagnosis."""
