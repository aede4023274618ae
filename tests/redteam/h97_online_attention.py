"""Attention over blocks of keys, rescaled as scores grow."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, Q, K, V):
        scale = Q.shape[-1] ** -0.5
        most = Q.new_full((*Q.shape[:-1], 1), float("-inf"))
        total, given = torch.zeros_like(most), torch.zeros_like(Q)
        for keys, values in zip(K.split(64, dim=2), V.split(64, dim=2)):
            scores = Q @ keys.transpose(-1, -2) * scale
            now = torch.maximum(most, scores.amax(-1, keepdim=True))
            weights, rescaled = (scores - now).exp(), (most - now).exp()
            total = total * rescaled + weights.sum(-1, keepdim=True)
            given = given * rescaled + weights @ values
            most = now
        return given / total
