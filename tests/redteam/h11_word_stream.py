"""The word stream throughout its comments."""

# This kernel streams x through registers: a streaming kernel whose stream of loads never leaves the stream
# of stores waiting. torch.cuda.Stream is not used; "stream" means flow.
import torch


class ModelNew(torch.nn.Module):
    """Streams."""

    def forward(self, x):
        stream = x  # the stream
        return torch.relu(stream)
