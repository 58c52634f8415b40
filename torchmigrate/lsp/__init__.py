"""TODO torchmigrate.lsp."""
