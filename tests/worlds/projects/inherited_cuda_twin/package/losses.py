from package.base import Loss


class NLL(Loss):
    """A loss that torch moves."""
