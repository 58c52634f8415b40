"""TODO torchmigrate.portability."""
