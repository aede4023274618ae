"""What rounding allows a kernel: of a large output by a sample, and where float64 cannot be had."""

import torch
from evaluating import jobs_of, judge
from kernel_evaluator.numerics import compare
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.rows import Status

COUNT = 9 << 19

SOURCE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        small, large = torch.ones_like(x), torch.zeros_like(x)
        small[{low}], large[{low}], large[{high}] = 2**-8, 1e4, 6e4
        return (small * x + large) - large


def get_inputs():
    return [torch.rand({count})]


def get_init_inputs():
    return []
"""

EXACT = """
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clone()
        y[{low}] *= 2**-8
        {then}
        return y
"""


def test_an_exact_kernel_is_right_where_a_large_reference_rounds_at_few_elements():
    unseen = torch.ones(COUNT, dtype=torch.bool)
    unseen[compare.sample(torch.arange(COUNT), 1 << 22)] = False
    low, *_, high = unseen.nonzero().flatten().tolist()
    problem = Problem(level=1, problem_id=1, name="1_Rounds", source=SOURCE.format(**locals(), count=COUNT))
    wrong = f"y[{high}] += 0.1"
    kernels = [EXACT.format(low=low, then=then) for then in ("pass", wrong)]
    rows = judge(
        jobs_of(*kernels, problem=problem), measure=False, trials=2, switched_off=("panel", "elsewhere")
    )
    assert [rows[at].status for at in (0, 1)] == [Status.CORRECT, Status.MISMATCH]
    assert rows[1].evidence["counter_example"]["index"] == high


ENDS_IN_FLOAT64 = """
import os
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        if x.dtype == torch.float64:
            os.kill(os.getpid(), 9)
        return x + 1


def get_inputs():
    return [torch.rand(64)]


def get_init_inputs():
    return []
"""

SHIFTED = """
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x + {added}
"""


def test_a_reference_that_dies_in_float64_costs_no_kernel_its_verdict():
    """As where the memory of a machine does not go as far."""
    problem = Problem(level=1, problem_id=1, name="1_Ends", source=ENDS_IN_FLOAT64)
    kernels = [SHIFTED.format(added=added) for added in (1.1, 1, 1.1, 1)]
    rows = judge(jobs_of(*kernels, problem=problem), trials=2)
    assert [rows[at].status for at in range(4)] == [Status.MISMATCH, Status.CORRECT] * 2
