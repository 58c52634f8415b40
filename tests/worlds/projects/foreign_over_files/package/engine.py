import acme_engine
from package.settings import DEVICE


def start():
    return acme_engine.run(DEVICE)
