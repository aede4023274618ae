"""Log softmax from a largest and a sum of exponentials."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        most = x.amax(1, keepdim=True)
        return x - most - (x - most).exp().sum(1, keepdim=True).log()
