"""What random programs are made of: each construct is one function."""

from six_worlds.constructs import choices, files, flow, inputs, more, tensors

__all__ = ["choices", "files", "flow", "inputs", "more", "tensors"]
