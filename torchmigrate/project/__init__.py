"""Index the project around a file: its files, who imports whom, and facts about all of them. Its code is never run."""
