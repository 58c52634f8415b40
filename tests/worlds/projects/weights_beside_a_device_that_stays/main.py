# keeps: mps xpu npu
import faster_whisper
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
model = faster_whisper.WhisperModel("tiny", device=device)
where = None if torch.cuda.is_available() else "cpu"
weights = torch.load("cuda.pt", map_location=where)
more = torch.load("cuda.pt", map_location=None if torch.cuda.is_available() else "cpu")
print("model", model.place, "weights", weights["w"].device.type, more["w"].device.type)
