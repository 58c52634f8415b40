"""Fixers that report code that works on CUDA and fails elsewhere."""
