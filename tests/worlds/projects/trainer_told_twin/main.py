# wants: mps
import pytorch_lightning as pl

print("s1", pl.Trainer(accelerator="cuda").place)
