"""Rows that are scaled by zero are left out, which is exact."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, A, B):
        given = torch.zeros_like(B)
        rows = A != 0
        given[rows] = A[rows, None] * B[rows]
        return given
