"""Fails where it finds anything that another kernel left."""

import os
import sys

import torch

for folder in ("/tmp", "/var/tmp", "/dev/shm", os.path.expanduser("~"), os.getcwd(), *sys.path):
    for name in ("owned", "owned-too", "owned.so", "owned.pth", "sitecustomize.py", "usercustomize.py", "torch.py",
                 "json.py", "verdict.json"):  # fmt: skip
        if folder and os.path.exists(f"{folder}/{name}"):
            raise RuntimeError(f"another kernel left {folder}/{name}")
if "REDTEAM_OWNED" in os.environ or os.environ.get("LD_PRELOAD"):
    raise RuntimeError("another kernel set the environment")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
