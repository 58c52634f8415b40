"""TODO torchmigrate.verify.simulated.torch_c."""
