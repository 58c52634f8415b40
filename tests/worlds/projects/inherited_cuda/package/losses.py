from package.base import Loss


class NLL(Loss):
    """A loss that inherits how it is moved."""
