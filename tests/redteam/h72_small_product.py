"""A product that takes little longer than to deliver it, computed when it should be."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, A, B):
        return torch.matmul(A, B)
