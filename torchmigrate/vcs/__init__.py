"""TODO torchmigrate.vcs."""
