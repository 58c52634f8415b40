"""Plan a run over all files: processes, the plan cache, steps for commits and questions, and the cases of rules."""
