"""Packs its weights in the first call, and anew when they change."""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, in_features, out_features, bias_shape):
        super().__init__()
        self.gemm = torch.nn.Linear(in_features, out_features, bias=False)
        self.bias = torch.nn.Parameter(torch.randn(bias_shape))
        self.packed = None

    def forward(self, x):
        weight = self.gemm.weight
        if self.packed is None or self.packed[0] != (weight.data_ptr(), weight._version):
            self.packed = ((weight.data_ptr(), weight._version), weight.detach().t().contiguous())
        return (x @ self.packed[1]).add_(self.bias).relu_()
