"""What processes of references and candidates begin with."""

from __future__ import annotations

from compiling import job
from evaluating import judge
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.rows import Status

LOSS = """
import resource

import torch
from torch import nn


def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


class {name}(nn.Module):
    def forward(self, x, y):
        for _ in range(50):
            loss = torch.mean((x - y) ** 2)
        before = pages()
        for _ in range(50):
            loss = torch.mean((x - y) ** 2)
        assert pages() - before < 50, f"{{pages() - before}} pages in 50 turns"
        return loss


def get_inputs():
    return [torch.rand(64, 4096), torch.rand(64, 4096)]


def get_init_inputs():
    return []
"""


def test_the_first_calls_of_a_process_page_nothing_in_that_later_ones_would_not() -> None:
    problem = Problem(level=1, problem_id=94, name="94_Loss", source=LOSS.format(name="Model"))
    (row,) = judge([job(LOSS.format(name="ModelNew"), problem)], measure=False).values()
    assert (row.status, row.failure) == (Status.CORRECT, None)
