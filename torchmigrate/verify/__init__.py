"""Proof: the original and the rewritten project on every backend, real or simulated. Only simulated/ imports torch."""
