"""Leaves a kernel running on the device that slows everybody else down."""

import torch
import triton
import triton.language as tl
from kernel_evaluator.candidate import clocks, runner


@triton.jit
def spin(flag, turns, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(turns):
        total += tl.load(flag + tl.arange(0, BLOCK), volatile=True)
    tl.store(flag + tl.arange(0, BLOCK), total)


honest = runner.batch_clock


def batch_clock(device, run):
    outputs, claimed = honest(device, run)
    spin[(132,)](ModelNew.flag, 20000, BLOCK=128)
    return outputs, claimed


runner.batch_clock = clocks.batch_clock = batch_clock


class ModelNew(torch.nn.Module):
    flag = None

    def forward(self, x):
        if ModelNew.flag is None:
            ModelNew.flag = torch.zeros(128, device=x.device)
        return torch.relu(x)
