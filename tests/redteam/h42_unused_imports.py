"""Imports that it does not use."""

import ctypes
import gc
import inspect
import os
import sys
import threading
import time

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
