import faster_whisper
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
model = faster_whisper.WhisperModel("tiny", device=device)
print("model", model.place)
