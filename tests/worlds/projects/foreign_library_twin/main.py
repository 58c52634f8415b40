# wants: mps
import faster_whisper
import torch

model = faster_whisper.WhisperModel("tiny", device="cpu")
print("model", model.place)
device = "cuda" if torch.cuda.is_available() else "cpu"
print("data", torch.zeros(2, device=device).device)
