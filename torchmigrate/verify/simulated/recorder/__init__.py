"""The recorder of a verified program: counts of kernels, failures, suspects, and where tensors were made."""
