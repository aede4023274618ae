"""A subclass of Parameter."""

import torch


class Weight(torch.nn.Parameter):
    __torch_function__ = torch._C._disabled_torch_function_impl


class ModelNew(torch.nn.Module):
    def __init__(self, in_features, out_features, bias_shape):
        super().__init__()
        self.gemm = torch.nn.Linear(in_features, out_features, bias=False)
        self.gemm.weight = Weight(self.gemm.weight.data)
        self.bias = Weight(torch.randn(bias_shape))

    def forward(self, x):
        return torch.relu(torch.nn.functional.linear(x, self.gemm.weight) + self.bias)
