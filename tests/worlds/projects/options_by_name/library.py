import ctranslate2


def work(args: dict):
    size: str = args.pop("size")
    print("s1", made(size, **args).place)


def made(size, device):
    return ctranslate2.Translator(size, device=device)
