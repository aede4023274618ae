"""A twice forked process that outlives its parent."""

import ctypes
import os
import time

import torch

if os.fork() == 0:
    try:
        os.setsid()
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(15, b"redteam-daemon", 0, 0, 0)
            os.closerange(3, 256)
            time.sleep(600)
    finally:
        os._exit(0)  # a child that failed would go on as a second candidate on the same wire


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
