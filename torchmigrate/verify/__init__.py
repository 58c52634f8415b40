"""Verify a migration: run the original and the rewritten project on real and simulated devices, compare the results."""
