# wants: mps
import torch


class Config:
    gpu = torch.cuda.is_available()

    def where(self):
        if self.gpu:
            return "cuda"
        return "cpu"


places = {name: place for name, place in (("first", Config().where()), ("rest", "cpu"))}
place = places["first"]
print("device", torch.ones(2).to(place).device)
