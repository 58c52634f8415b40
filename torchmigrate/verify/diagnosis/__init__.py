"""Why a verified program failed: the failure, its cause, the rule that touched the place."""
