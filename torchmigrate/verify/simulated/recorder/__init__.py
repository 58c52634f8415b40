"""What a verified program leaves for the report: its kernels, its failure, and where tensors came from."""
