import torch

if gpu := torch.cuda.is_available():
    print("s1", "on a GPU")
b = torch.ones(2)
b = b.cuda() if torch.cuda.is_available() else b
print("s2", b.device)


def candidates():
    if gpu:
        yield "cuda"
    yield "cpu"


print("s3", torch.ones(2).to(next(candidates())).device)
