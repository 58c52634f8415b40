"""Runs original and rewritten projects on real and simulated devices, and compares what they print and write."""
