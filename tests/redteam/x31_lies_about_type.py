"""Gives the wrong type in single calls too, and lies in its description."""

import torch
from kernel_evaluator.candidate import runner
from kernel_evaluator.candidate.frames import Leaf

honest = runner.claim


def claim(leaf):
    shown = honest(leaf)
    return Leaf(dtype="float32", shape=shown.shape, device=shown.device, is_plain_tensor=True, is_dense=True)


runner.claim = claim


class ModelNew(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return x.half().sum(self.dim, keepdim=True)
