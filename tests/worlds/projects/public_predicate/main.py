# keeps: mps xpu
from package.choose import get_backend
from package.imports import is_cuda_available

print("backend", get_backend())
print("cuda", is_cuda_available())
