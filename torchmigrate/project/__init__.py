"""The project index: which files there are, who imports whom, and facts about all of them. Never imports a project's code."""
