def place():
    return "cuda"
