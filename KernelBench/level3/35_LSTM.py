"""A stack of num_layers LSTM layers reads x of shape (batch_size, sequence_length, input_size), and a linear
layer maps the last time step's output to (batch_size, output_size), float32. The initial states h0 and c0 are
optional and not supplied by get_inputs: forward then draws them, h0 first, from the standard normal
distribution on the device of x, so the result depends (weakly) on the random state at the time of the call.
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
    """A multi-layer LSTM with random initial states and a linear head on the last step."""

    def __init__(self, input_size, hidden_size, num_layers, output_size, dropout=0.0):
        super().__init__()
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.lstm = nn.LSTM(input_size, hidden_size, num_layers, batch_first=True, dropout=dropout)
        self.fc = nn.Linear(hidden_size, output_size)

    def forward(self, x, h0=None, c0=None):
        shape = (self.num_layers, x.size(0), self.hidden_size)
        if h0 is None:
            h0 = torch.randn(*shape, device=x.device)
        if c0 is None:
            c0 = torch.randn(*shape, device=x.device)
        out, _ = self.lstm(x, (h0, c0))
        return self.fc(out[:, -1, :])


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, sequence_length, input_size)]


def get_init_inputs() -> list[int | float]:
    return [input_size, hidden_size, num_layers, output_size, dropout]
