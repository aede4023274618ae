"""A diagonal product row by row: a launch for each of 4096 rows.

kind: loops
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, A, B):
        C = torch.empty_like(B)
        for i in range(B.shape[0]):
            C[i] = A[i] * B[i]
        return C
