import pytorch_lightning as pl
import torch

GPUS = min(1, torch.cuda.device_count())
print("s1", pl.Trainer(gpus=GPUS).place)
accelerator = "gpu" if torch.cuda.is_available() else "cpu"
print("s2", pl.Trainer(accelerator=accelerator).place)
