"""Many repositories in one run: each is taken, migrated apart from the user's own checkout, and put into one report."""
