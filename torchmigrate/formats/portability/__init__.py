"""TODO torchmigrate.formats.portability."""
