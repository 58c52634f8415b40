# wants: mps
from package.memory import get_backend

print("backend", get_backend())
