import argparse


def parse_opts():
    parser = argparse.ArgumentParser()
    parser.add_argument("--no_cuda", action="store_true")
    parser.add_argument("--rank", type=int, default=-1)
    return parser.parse_args()
