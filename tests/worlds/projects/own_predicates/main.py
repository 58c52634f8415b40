# keeps: mps xpu cpu nogpu cuda
from tools.asked import is_cuda_available
from tools.memory import get_backend, get_max_memory

print(is_cuda_available(), get_backend(), sorted(map(str, get_max_memory())))
