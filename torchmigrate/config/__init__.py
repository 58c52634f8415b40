"""Read settings: the keys of `[tool.torchmigrate]`, the file that holds them, and the command line on top."""
