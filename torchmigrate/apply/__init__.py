"""Write a plan to disk: journals, undo, baselines and commits."""
