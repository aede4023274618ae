"""Starts subprocesses and a pool of threads."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import torch

answer = subprocess.run([sys.executable, "-c", "print(40 + 2)"], capture_output=True, text=True).stdout
with ThreadPoolExecutor(8) as pool:
    squares = list(pool.map(lambda n: n * n, range(100)))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) if int(answer) == 42 and squares[9] == 81 else x
