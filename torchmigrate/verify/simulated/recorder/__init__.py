"""Record what a verified program does: counts of kernels, failures, suspects, and where tensors were made."""
