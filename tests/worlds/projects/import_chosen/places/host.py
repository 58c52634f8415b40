def place():
    return "cpu"
