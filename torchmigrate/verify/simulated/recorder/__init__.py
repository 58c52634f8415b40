"""TODO torchmigrate.verify.simulated.recorder."""
