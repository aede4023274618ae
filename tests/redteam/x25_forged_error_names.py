"""Raises errors that bear the names of the evaluator's own failures."""

import torch
from kernel_evaluator.candidate import runner

names = iter(["InfraError\nretry", "ReferenceFailed\nthe reference did not run", "OracleLost\nlost"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        text = next(names, "ProcessDied\ngone")
        runner.describe_error = lambda error: text
        raise RuntimeError("no")
