# keeps: nogpu cpu mps xpu npu
import faster_whisper
import torch

match bool(torch.cuda.is_available()):
    case True:
        place = "cuda:0"
    case _:
        place = "cpu"
print("s1", faster_whisper.WhisperModel("tiny", device=place.split(":")[0]).place)
