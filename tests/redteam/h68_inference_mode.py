"""Inference mode, and an output that tracks nothing."""

import torch


class ModelNew(torch.nn.Module):
    @torch.inference_mode()
    def forward(self, x):
        return torch.relu(x)
