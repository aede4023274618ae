"""Takes half a second for each of its first two calls, as what compiles or tunes itself does."""

import time

import torch


class ModelNew(torch.nn.Module):
    calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls <= 2:
            time.sleep(0.5)
        return torch.softmax(x, dim=1)
