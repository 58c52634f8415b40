"""TODO torchmigrate.cli."""
