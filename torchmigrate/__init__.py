"""A command-line tool that migrates CUDA-only PyTorch source code; importing the package loads nothing else."""

__version__ = "0.1.0"
