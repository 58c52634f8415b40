"""The project index: its files, who imports whom, and facts about all of them. Never imports a project's code."""
