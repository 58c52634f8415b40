"""Do the steps of `apply` and `check`: plan, ask, guard, save, write, report."""
