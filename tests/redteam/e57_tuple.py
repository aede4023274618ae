"""A tuple's first output right, the others missing or garbage."""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, input_size, hidden_size, num_layers, output_size, dropout=0.0):
        super().__init__()
        self.lstm = torch.nn.LSTM(input_size, hidden_size, num_layers, batch_first=True, dropout=dropout)
        self.fc = torch.nn.Linear(hidden_size, output_size)

    def forward(self, x, *state):
        out = self.lstm(x, tuple(state) if state else None)[0]
        return out, torch.zeros(1)
