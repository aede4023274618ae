"""Falls back to torch for sizes it does not know."""

import torch


def blocked(x):
    return torch.cat([part.clamp(min=0) for part in x.split(2, 0)])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if x.dim() == 2 and x.shape[1] % 128 == 0:
            return blocked(x) if x.shape[0] <= 8 else torch.relu(x)
        return torch.relu(x)
