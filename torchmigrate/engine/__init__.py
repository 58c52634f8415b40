"""All files of a run: plan, workers, plans kept for the next run, cases of rules."""
