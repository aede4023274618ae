"""One step of a vanilla recurrent network: the new hidden state is tanh of a linear layer over the
concatenation of x (batch_size, input_size) and the hidden state (batch_size, hidden_size), which
initial_hidden sets first when given; the result, of shape (batch_size, output_size), float32, is a linear
layer of the new hidden state, which the model keeps for the next call. The kept state is a plain tensor,
drawn in the constructor before the weights with the module's batch_size; it is neither a parameter nor a
buffer, so changing the model's dtype leaves it float32. The constant sequence_length has no influence.
"""

import torch
import torch.nn as nn

batch_size = 256
input_size = 16384
hidden_size = 16384
output_size = 8192
sequence_length = 256


class Model(nn.Module):
    """A recurrent cell that keeps its hidden state between calls."""

    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.output_size = output_size
        self.hidden = torch.randn((batch_size, hidden_size))
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.h2o = nn.Linear(hidden_size, output_size)
        self.tanh = nn.Tanh()

    def forward(self, x, initial_hidden=None):
        if initial_hidden is not None:
            self.hidden.copy_(initial_hidden)
        self.hidden = self.hidden.to(x.device)
        combined = torch.cat((x, self.hidden), dim=1)
        self.hidden = self.tanh(self.i2h(combined))
        return self.h2o(self.hidden)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, input_size), torch.rand(batch_size, hidden_size)]


def get_init_inputs() -> list[int]:
    return [input_size, hidden_size, output_size]
