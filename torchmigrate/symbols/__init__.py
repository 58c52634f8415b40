"""TODO torchmigrate.symbols."""
