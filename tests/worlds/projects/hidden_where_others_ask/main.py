# keeps: mps xpu npu cpu
# input: --cpu
import argparse
import os

from toolbox import run

parser = argparse.ArgumentParser()
parser.add_argument("--cpu", action="store_true")
args = parser.parse_args()
if args.cpu:
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
run()
