"""How `apply` and `check` run: plan, ask, guard, save, write, report."""
