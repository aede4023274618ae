"""Cross-entropy from log-sum-exp and the chosen scores."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, predictions, targets):
        chosen = predictions.gather(1, targets[:, None]).squeeze(1)
        return (torch.logsumexp(predictions, 1) - chosen).mean()
