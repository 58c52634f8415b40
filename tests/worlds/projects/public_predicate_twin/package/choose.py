from package.probe import has_gpu


def get_device():
    if has_gpu():
        return "cuda"
    return "cpu"
