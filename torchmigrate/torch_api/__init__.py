"""TODO torchmigrate.torch_api."""
