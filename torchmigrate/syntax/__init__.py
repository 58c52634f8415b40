"""TODO torchmigrate.syntax."""
