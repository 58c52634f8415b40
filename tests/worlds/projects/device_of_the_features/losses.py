import torch


class Loss(torch.nn.Module):
    def forward(self, features, labels=None):
        device = (torch.device('cuda')
                  if features.is_cuda
                  else torch.device('cpu'))
        mask = torch.ones(2).to(device)
        return features, mask
