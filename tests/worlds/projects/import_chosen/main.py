import torch

if torch.cuda.is_available():
    from places.gpu import place
else:
    from places.host import place

x = torch.ones(2).cuda() if torch.cuda.is_available() else torch.ones(2)
print("data", x.to(place()).device)
