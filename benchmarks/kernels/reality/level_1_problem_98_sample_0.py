"""The divergence written out: logarithms, difference and product each in a tensor of their own.

kind: memory
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, predictions, targets):
        log_predictions = torch.log(predictions)
        log_targets = torch.log(targets)
        difference = log_targets - log_predictions
        terms = targets * difference
        return terms.sum() / predictions.shape[0]
