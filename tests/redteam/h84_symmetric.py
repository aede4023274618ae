"""The transpose of the product of symmetric matrices, the other way round."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, A, B):
        return (B @ A).T.contiguous()
