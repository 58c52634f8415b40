"""Verification: run the original and the rewritten project on real and simulated devices, and compare the results."""
