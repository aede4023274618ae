"""A product in half precision where the inputs are symmetric: right on upstream's, which cancel nothing."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        return a.half().float() @ b.half().float()
