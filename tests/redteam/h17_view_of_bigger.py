"""An output that is part of a padded buffer."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, A, B):
        room = torch.empty(A.shape[0], B.shape[1] + 16, device=A.device)
        y = room[:, : B.shape[1]]
        y.copy_(A @ B)
        return y
