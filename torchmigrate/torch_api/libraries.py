"""What people use in place of NVIDIA's libraries and environment variables: one place for each fact."""

from __future__ import annotations

import re

LIBRARIES = {
    "apex": "torch.amp, torch.optim's `fused=True` and DistributedDataParallel do what most of it did",
    "flash_attn": "torch.nn.functional.scaled_dot_product_attention runs everywhere and picks flash attention on CUDA",
    "xformers": "torch.nn.functional.scaled_dot_product_attention replaces memory_efficient_attention on every device",
    "triton": "XPU has its own build of Triton, MPS and most CPUs none: keep a path in plain torch beside the kernels",
    "bitsandbytes": "recent releases have XPU, HPU and CPU backends, MPS has none: make quantisation optional",
    "pynvml": "it asks NVIDIA's driver: `accel.mem_get_info()` and `accel.get_device_name()` are portable",
    "cupy": "its arrays live on CUDA and ROCm: torch has most of NumPy's functions on every device",
    "tensorrt": "ONNX Runtime or torch.compile are portable ways to a faster model",
    "transformer_engine": "its layers need CUDA: fall back to torch.nn's",
    "deep_gemm": "its kernels need CUDA: fall back to torch.matmul",
}

VARIABLES = {
    "CUDA_VISIBLE_DEVICES": (
        "CUDA and ROCm alone heed it; ZE_AFFINITY_MASK is Intel's (XPU), ASCEND_RT_VISIBLE_DEVICES Huawei's (NPU), "
        "MPS has one device"
    ),
    "CUDA_LAUNCH_BLOCKING": (
        "CUDA and ROCm alone heed it; ASCEND_LAUNCH_BLOCKING is Huawei's (NPU), UR_L0_SERIALIZE=2 Intel's (XPU)"
    ),
    "PYTORCH_CUDA_ALLOC_CONF": (
        "CUDA and ROCm alone heed it; since torch 2.9 it is PYTORCH_ALLOC_CONF for every accelerator, before that "
        "PYTORCH_NPU_ALLOC_CONF is Huawei's; MPS has PYTORCH_MPS_HIGH_WATERMARK_RATIO"
    ),
}


def of_library(name: str) -> str | None:
    """By the name that is imported, or the one that is installed: `flash-attn`, `Flash.Attn`."""
    return LIBRARIES.get(re.sub(r"[-_.]+", "_", name).lower())


BUILT_ON_TORCH = {
    "torch", "torchvision", "torchaudio", "torchtext", "pytorch_lightning", "lightning", "transformers", "timm",
    "diffusers", "accelerate", "fairseq", "torch_geometric", "apex", "kornia", "einops", "clip", "whisper",
}  # fmt: skip


CUDA_ONLY = {
    "apex", "flash_attn", "flash_attn_interface", "xformers", "triton", "bitsandbytes", "pynvml",
    "py3nvml", "nvidia_smi", "GPUtil", "cupy", "pycuda", "transformer_engine", "tensorrt", "torch2trt",
    "causal_conv1d", "mamba_ssm",
}  # fmt: skip
