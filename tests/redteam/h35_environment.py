"""Sets build variables."""

import os

import torch

os.environ["TORCH_CUDA_ARCH_LIST"] = "9.0a"
os.environ["MAX_JOBS"] = "2"
os.environ["CUDA_LAUNCH_BLOCKING"] = "0"


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
