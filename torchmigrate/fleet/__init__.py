"""Many repositories in one run: listing, workers, patches, one report."""
