# never: half True
import torch
from base import Trainer


class Own(Trainer):
    def step(self, x):
        x = x.to("cuda" if torch.cuda.is_available() else "cpu")
        with torch.cuda.amp.autocast():
            print("s1", "half", torch.is_autocast_enabled(x.device.type))


print("s0", Trainer.__name__)
Own.step(None, torch.ones(2))
