"""What a plan does to the disk: journal, writes, undo, baselines, commits."""
