from .const import DEVICE


def where_is():
    return DEVICE
