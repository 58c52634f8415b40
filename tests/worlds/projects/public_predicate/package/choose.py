from package.imports import is_cuda_available, is_mps_available, is_xpu_available


def get_backend():
    if is_cuda_available():
        return "cuda"
    elif is_mps_available():
        return "mps"
    elif is_xpu_available():
        return "xpu"
    return "cpu"
