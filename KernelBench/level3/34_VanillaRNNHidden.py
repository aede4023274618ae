"""A vanilla recurrent network over a sequence: starting from h0 (batch_size, hidden_size), each step takes
x[t] of x (sequence_length, batch_size, input_size), sets the hidden state to tanh of a linear layer over
their concatenation and emits a linear layer of it; the outputs are stacked to (sequence_length, batch_size,
output_size), float32.
"""

import torch
import torch.nn as nn

batch_size = 8
input_size = 1024
hidden_size = 256
output_size = 128
sequence_length = 256


class Model(nn.Module):
    """A recurrent network unrolled over the first axis of its input."""

    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.output_size = output_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.h2o = nn.Linear(hidden_size, output_size)
        self.tanh = nn.Tanh()

    def forward(self, x, h0):
        hidden = h0.to(x.device)
        outputs = []
        for step in range(x.size(0)):
            combined = torch.cat((x[step], hidden), dim=1)
            hidden = self.tanh(self.i2h(combined))
            outputs.append(self.h2o(hidden))
        return torch.stack(outputs, dim=0)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(sequence_length, batch_size, input_size), torch.rand(batch_size, hidden_size)]


def get_init_inputs() -> list[int]:
    return [input_size, hidden_size, output_size]
