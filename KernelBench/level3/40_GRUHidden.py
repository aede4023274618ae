"""A stack of num_layers GRU layers reads x of shape (seq_len, batch_size, input_size) from the initial hidden
states h0 (num_layers, batch_size, hidden_size); the result is the final hidden state of every layer,
(num_layers, batch_size, hidden_size), float32.
"""

import torch
import torch.nn as nn

batch_size = 10
seq_len = 512
input_size = 128
hidden_size = 256
num_layers = 6


class Model(nn.Module):
    """A multi-layer GRU that returns its final hidden states."""

    def __init__(self, input_size, hidden_size, num_layers=3, bias=True, batch_first=False):
        super().__init__()
        self.gru = nn.GRU(input_size, hidden_size, num_layers, bias, batch_first)

    def forward(self, x, h0):
        _, h_n = self.gru(x, h0)
        return h_n


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(seq_len, batch_size, input_size), torch.rand(num_layers, batch_size, hidden_size)]


def get_init_inputs() -> list[int]:
    return [input_size, hidden_size, num_layers]
