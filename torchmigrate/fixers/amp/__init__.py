"""TODO torchmigrate.fixers.amp."""
