"""A twice forked process that outlives its parent."""

import os
import time

import torch

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open("/proc/self/comm", "w") as file:
            file.write("redteam-daemon")
        for fd in range(3, 256):
            try:
                os.close(fd)
            except OSError:
                pass
        time.sleep(600)
    os._exit(0)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
