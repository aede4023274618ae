"""Outputs whose dimensions lie in another order in memory than the reference's, judged on a CPU."""

from evaluating import is_late, jobs_of, judge
from kernel_evaluator.problems.problem_set import Problem

PROBLEM = Problem(
    level=1,
    problem_id=1,
    name="1_Sum",
    source="""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return x + 1


def get_inputs():
    return [torch.rand(2, 32, 128, 128)]


def get_init_inputs():
    return []
""",
)

CHANNELS_LAST = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x, memory_format=torch.channels_last)
        {fill}
        return out
"""


def is_charged(row):
    return row.status != "correct" or "deferred-work" in row.labels


def test_an_output_in_channels_last_order_is_right_and_not_charged_for_being_reordered():
    jobs = jobs_of(CHANNELS_LAST.format(fill="torch.add(x, 1, out=out)"), problem=PROBLEM)
    assert not is_charged(judge(jobs, unsaid=lambda row: is_charged(row) and is_late(row))[0])


def test_what_is_wrong_in_another_order_is_wrong_at_its_own_place():
    fill = "torch.add(x, 1, out=out); out[1, 3, 5, 7] += 1"
    row = judge(jobs_of(CHANNELS_LAST.format(fill=fill), problem=PROBLEM), measure=False)[0]
    assert row.status == "mismatch"
    assert row.evidence["counter_example"]["index"] == ((1 * 32 + 3) * 128 + 5) * 128 + 7
