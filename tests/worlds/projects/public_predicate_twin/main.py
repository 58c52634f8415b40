# wants: mps
from package.choose import get_device

print("device", get_device())
