# keeps: mps xpu npu
import faster_whisper
import torch


class Translation:
    DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
    DTYPE = torch.bfloat16 if torch.cuda.is_available() else torch.float32

    def run(self):
        model = faster_whisper.WhisperModel("tiny", device=self.DEVICE)
        data = torch.zeros(2, dtype=self.DTYPE, device=self.DEVICE)
        print("model", model.place, "data", data.device.type, data.dtype)


Translation().run()
