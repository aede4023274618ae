"""Sets every global switch of torch it can find, then computes honestly."""

import torch

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
torch.backends.cudnn.enabled = False
torch.set_flush_denormal(True)
torch.set_default_dtype(torch.float64)
torch.set_float32_matmul_precision("medium")


class ModelNew(torch.nn.Module):
    def forward(self, A, B):
        return A @ B
