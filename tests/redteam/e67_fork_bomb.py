"""Forks as often as it can."""

import os
import time

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        for _ in range(4000):
            if os.fork() == 0:
                time.sleep(600)
                os._exit(0)
        return torch.relu(x)
