"""Migrate many repositories in one run: a list of sources, workers, patches, one report."""
