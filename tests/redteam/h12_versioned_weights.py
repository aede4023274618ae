"""A transformed weight kept by address and version."""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, in_features, out_features, bias_shape):
        super().__init__()
        self.gemm = torch.nn.Linear(in_features, out_features, bias=False)
        self.bias = torch.nn.Parameter(torch.randn(bias_shape))
        self.kept = (None, None)

    def forward(self, x):
        weight = self.gemm.weight
        key = (weight._version, weight.data_ptr())
        if self.kept[0] != key:
            self.kept = (key, weight.t().contiguous())
        return torch.relu(torch.addmm(self.bias, x, self.kept[1]))
