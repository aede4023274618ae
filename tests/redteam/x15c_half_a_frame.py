"""Sends half an answer and falls silent."""

import struct
import time

import torch
from kernel_evaluator.candidate.frames import Channel


def answer(self, reply):
    self._sock.sendall(struct.pack("<IIQ", 100, 64, self._sequence) + b"\0" * 20)
    time.sleep(10000)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        Channel.answer = answer
        return torch.relu(x)
