import torch


def main():
    if torch.cuda.is_available():
        from places.gpu import place
    else:
        from places.host import place
    model = torch.nn.Linear(2, 2).to(place())
    x = torch.ones(2)
    if torch.cuda.is_available():
        x = x.cuda()
    print("s1", model(x).device)


if __name__ == "__main__":
    main()
