# keeps: mps xpu npu
from package.imports import is_cuda_available
from package.memory import clear, device_of_ladder, get_backend, get_max_memory

clear()
print("backend", get_backend())
print("memory", get_max_memory())
print("ladder", device_of_ladder())
print("cuda", is_cuda_available())
