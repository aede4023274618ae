"""A stack of num_layers bidirectional LSTM layers reads x of shape (batch_size, sequence_length, input_size)
from the initial states h0 and c0, each of shape (2 * num_layers, batch_size, hidden_size), and a linear layer
maps the output at the last time step (for the backward direction its first step) to (batch_size,
output_size), float32.
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
    """A multi-layer bidirectional LSTM with a linear head on the last step."""

    def __init__(self, input_size, hidden_size, num_layers, output_size, dropout=0.0):
        super().__init__()
        self.lstm = nn.LSTM(
            input_size, hidden_size, num_layers, batch_first=True, dropout=dropout, bidirectional=True
        )
        self.fc = nn.Linear(2 * hidden_size, output_size)

    def forward(self, x, h0, c0):
        out, _ = self.lstm(x, (h0, c0))
        return self.fc(out[:, -1, :])


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, sequence_length, input_size)
    h0 = torch.rand(2 * num_layers, batch_size, hidden_size)
    c0 = torch.rand(2 * num_layers, batch_size, hidden_size)
    return [x, h0, c0]


def get_init_inputs() -> list[int | float]:
    return [input_size, hidden_size, num_layers, output_size, dropout]
