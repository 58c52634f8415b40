"""TODO torchmigrate.formats.tables."""
