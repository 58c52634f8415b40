"""What random programs are made of: each construct is one function."""

from six_worlds.constructs import choices

__all__ = ["choices"]
