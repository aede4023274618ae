"""A stack of num_layers bidirectional GRU layers reads x of shape (seq_len, batch_size, input_size) from the
initial hidden states h0 (2 * num_layers, batch_size, hidden_size); the result is the last layer's output at
every time step, (seq_len, batch_size, 2 * hidden_size), float32. The constructor also draws a tensor
attribute h0 with the module's batch_size after the weights; it has no influence.
"""

import torch
import torch.nn as nn

batch_size = 10
seq_len = 512
input_size = 128
hidden_size = 256
num_layers = 6


class Model(nn.Module):
    """A multi-layer bidirectional GRU that returns its output sequence."""

    def __init__(self, input_size, hidden_size, num_layers=3, bias=True, batch_first=False):
        super().__init__()
        self.gru = nn.GRU(input_size, hidden_size, num_layers, bias, batch_first, bidirectional=True)
        self.h0 = torch.randn((num_layers * 2, batch_size, hidden_size))

    def forward(self, x, h0):
        output, _ = self.gru(x, h0)
        return output


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(seq_len, batch_size, input_size), torch.rand(2 * num_layers, batch_size, hidden_size)]


def get_init_inputs() -> list[int]:
    return [input_size, hidden_size, num_layers]
