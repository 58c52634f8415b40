"""Fixers that report what works on CUDA and fails elsewhere."""
