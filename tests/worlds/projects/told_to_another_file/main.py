# wants: mps
import torch
from runner import Runner
from task import Task

config = {"device": "cuda" if torch.cuda.is_available() else "cpu"}
Runner(config, torch.nn.Linear(2, 2), Task()).train_epoch([{"x": torch.zeros(2)}])
