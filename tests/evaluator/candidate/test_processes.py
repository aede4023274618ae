"""What processes of references and candidates begin with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace

from compiling import job
from evaluating import PROBLEM, RIGHT, cpu_settings, jobs_of, judge
from kernel_evaluator.oracle_process import job_to_json
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


LEAKS = """
import atexit
import gc
import sys

print("said by the problem")
atexit.register(lambda: gc.get_freeze_count() and sys.stderr.write("leaked"))
"""


def test_the_oracle_ends_without_a_word_of_what_it_keeps_from_the_collector() -> None:
    """Libraries write a page of leaks where the interpreter ends, and what is frozen is still there."""
    problem = replace(PROBLEM, source=LEAKS + PROBLEM.source)
    asked = [asdict(cpu_settings(measure=False)), job_to_json(*jobs_of(RIGHT, problem=problem), None)]
    oracle = subprocess.Popen(
        [sys.executable, "-m", "kernel_evaluator.oracle_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        text=True,
    )
    oracle.stdin.write("".join(f"{json.dumps(said)}\n" for said in asked))
    oracle.stdin.flush()
    answer = json.loads(oracle.stdout.readline())
    _, errors = oracle.communicate()
    assert (answer["row"]["status"], oracle.returncode) == ("correct", 0)
    assert "leaked" not in errors
    assert "said by the problem" in errors
