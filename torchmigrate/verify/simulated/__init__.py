"""Simulate devices, and record what ran on them; loaded inside a verified program.

These modules need torch and the standard library only. site/sitecustomize.py loads them as `torchmigrate_simulated`, so
the program's environment need not have torchmigrate.
"""
