"""Cross-entropy between logits and class indices, averaged over the batch: the mean over b of log(sum over k
of exp(predictions[b, k])) - predictions[b, targets[b]]. predictions is float32 of shape (batch_size,
num_classes), targets is int64 of shape (batch_size,), the result is one float32 scalar. The constant dim is
not used.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 32768
num_classes = 4096
input_shape = (num_classes,)
dim = 1


class Model(nn.Module):
    """Mean cross-entropy loss."""

    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(predictions, targets)


def get_inputs() -> list[torch.Tensor]:
    predictions = torch.rand(batch_size, *input_shape)
    targets = torch.randint(0, num_classes, (batch_size,))
    return [predictions, targets]


def get_init_inputs() -> list[object]:
    return []
