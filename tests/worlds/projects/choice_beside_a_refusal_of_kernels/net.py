import torch


class Net:
    def use_kernels(self):
        if not torch.cuda.is_available():
            raise ValueError("the kernels of xformers are for a GPU alone")
        else:
            import xformers.ops

            x = torch.zeros(1, 2, 40, device="cuda")
            xformers.ops.memory_efficient_attention(x, x, x)
