"""Softmax in one pass over pieces, rescaled as the largest grows."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        most = x.new_full((len(x), 1), float("-inf"))
        total = x.new_zeros(len(x), 1)
        for part in x.split(4096, dim=1):
            now = torch.maximum(most, part.amax(1, keepdim=True))
            total = total * (most - now).exp() + (part - now).exp().sum(1, keepdim=True)
            most = now
        return (x - most).exp_().div_(total)
