"""A root refined in a loop until its change is less than zero, where zero was meant: it never is.

kind: hangs
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, input_size, hidden_size, num_groups, eps=1e-5, negative_slope=0.01):
        super().__init__()
        self.fc = nn.Linear(input_size, hidden_size)
        self.gn = nn.GroupNorm(num_groups, hidden_size, eps=eps)
        self.leaky_relu = nn.LeakyReLU(negative_slope=negative_slope)

    def forward(self, x):
        x = self.fc(x)
        groups = x.view(x.shape[0], self.gn.num_groups, -1)
        centred = groups - groups.mean(dim=2, keepdim=True)
        spread = torch.ones_like(centred[:, :, :1])
        error = torch.ones(())
        while error.item() >= 0.0:
            updated = 0.5 * (spread + (centred.pow(2).mean(dim=2, keepdim=True) + self.gn.eps) / spread)
            error = (updated - spread).abs().max()
            spread = updated
        x = (centred / spread).view_as(x) * self.gn.weight + self.gn.bias
        x = F.leaky_relu(x, self.leaky_relu.negative_slope)
        return x + x
