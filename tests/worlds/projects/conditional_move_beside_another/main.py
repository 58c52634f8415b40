# wants: mps
import torch


class Transform(torch.nn.Module):
    def transform(self, data):
        moved = torch.add(
            data.cuda(),
            torch.ones(2).cuda(),
        ).cpu()
        return moved, moved.data

    def inverse(self, magnitude, phase):
        size = magnitude.size(-1)
        window = torch.from_numpy(self.sums)
        window = window.cuda() if magnitude.is_cuda else window
        return window[:size]

    def forward(self, data):
        self.magnitude, self.phase = self.transform(data)
        inverse = self.inverse(self.magnitude, self.phase)
        return inverse


name = next(name for name in vars(Transform) if name.startswith("trans"))
if torch.cuda.is_available():
    getattr(Transform(), name)(torch.ones(2))
print(torch.zeros(2, device="cuda" if torch.cuda.is_available() else "cpu").device)
