"""The divergence written out: logarithms, products and difference each in a tensor of their own.

kind: memory
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, predictions, targets):
        log_predictions = torch.log(predictions)
        entropy_terms = torch.xlogy(targets, targets)
        cross_terms = targets * log_predictions
        terms = entropy_terms - cross_terms
        return terms.sum() / predictions.shape[0]
