"""torchmigrate: source-to-source migration of CUDA-only PyTorch code. Imports nothing eagerly."""

__version__ = "0.1.0"
