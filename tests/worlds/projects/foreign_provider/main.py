import onnxruntime
import torch

providers = ["CUDAExecutionProvider"] if torch.cuda.is_available() else ["CPUExecutionProvider"]
print("session", onnxruntime.InferenceSession("m.onnx", providers=providers).place)
