"""Diagnose failed runs: which exception came first, its likely cause, the rule that rewrote the line."""
