"""TODO torchmigrate.cli.migration."""
