"""A stack of num_layers LSTM layers reads x of shape (batch_size, sequence_length, input_size) from the
initial states h0 and c0, each of shape (num_layers, batch_size, hidden_size); the result is the final cell
state of every layer, (num_layers, batch_size, hidden_size), float32. The linear layer fc is applied to the
last time step's output, but what it computes is discarded, so its parameters have no influence.
"""

import torch
import torch.nn as nn

batch_size = 10
sequence_length = 512
input_size = 128
hidden_size = 256
num_layers = 6
output_size = 10
dropout = 0.0


class Model(nn.Module):
    """A multi-layer LSTM that returns its final cell states."""

    def __init__(self, input_size, hidden_size, num_layers, output_size, dropout=0.0):
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size, num_layers, batch_first=True, dropout=dropout)
        self.fc = nn.Linear(hidden_size, output_size)

    def forward(self, x, h0, c0):
        out, (_, cn) = self.lstm(x, (h0, c0))
        self.fc(out[:, -1, :])
        return cn


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, sequence_length, input_size)
    h0 = torch.rand(num_layers, batch_size, hidden_size)
    c0 = torch.rand(num_layers, batch_size, hidden_size)
    return [x, h0, c0]


def get_init_inputs() -> list[int | float]:
    return [input_size, hidden_size, num_layers, output_size, dropout]
