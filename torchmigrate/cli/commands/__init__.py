"""TODO torchmigrate.cli.commands."""
