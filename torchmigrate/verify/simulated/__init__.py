"""What runs inside a verified program: simulated devices, the report of what ran. Torch and the standard library only.

Loaded as `torchmigrate_simulated` by site/sitecustomize.py, so the program's environment need not have torchmigrate.
"""
