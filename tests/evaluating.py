"""A small problem and kernels for it, and the engine that judges them: what the evaluator's tests share."""

from __future__ import annotations

import os
import queue
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from kernel_evaluator.engines.local import LocalEngine, hangs_on_time
from kernel_evaluator.problems.jobs import Job, Settings
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import BUSY_HOST, Row
from kernel_evaluator.walls import sandbox

CALMER_TRIES = 4

SOURCE = """
import torch
import torch.nn as nn

rows = 16


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return self.norm(torch.relu(x))


def get_inputs():
    return [torch.rand(rows, 64)]


def get_init_inputs():
    return [64]
"""

PROBLEM = Problem(level=1, problem_id=1, name="1_Tiny", source=SOURCE)

RIGHT = """
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return self.norm(x.clamp(min=0))
"""


def kernel(*forward: str, head: str = "", init: str = "pass") -> str:
    """A kernel whose forward has these lines before it would return the right answer."""
    body = "\n        ".join(forward)
    return f"""
import os
import sys
import time
import torch
import torch.nn as nn
import torch.nn.functional as F
{head}

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        {init}

    def right(self, x):
        return self.norm(x.clamp(min=0))

    def forward(self, x):
        {body}
        return self.right(x)
"""


def command(pid: int) -> str:
    """The command line of a process; empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def jobs_of(*sources, problem=PROBLEM):
    """Jobs for one problem: the position is the sample."""
    return [
        Job(key=KernelKey(problem.level, problem.problem_id, at), source=source, problem=problem)
        for at, source in enumerate(sources)
    ]


def cpu_settings(**choices):
    return Settings(**{"device": "cpu", "sizes": "reduced", "timeout_s": 90.0, "memory_gb": 4.0, **choices})


def is_without_verdict(row: Row) -> bool:
    """Whether the host was too busy to say anything of the kernel."""
    return row.failure is not None and row.failure.name == BUSY_HOST


def is_late(row: Row) -> bool:
    """Whether a calmer host could have said something else."""
    return is_without_verdict(row) or hangs_on_time(row)


def judge(jobs, unsaid=is_without_verdict, **choices):
    """Judge on this machine's CPU, and again what is `unsaid` since the host was busy; rows by sample."""
    return _rows(lambda left: LocalEngine().run(left, cpu_settings(**choices)), jobs, unsaid)


@contextmanager
def standing(**choices):
    """Give what judges as `judge` does, by one engine that stands by: starting one takes longer than judging."""
    given = queue.SimpleQueue()
    verdicts = LocalEngine().run(iter(given.get, None), cpu_settings(**choices))

    def run(jobs):
        for job in jobs:
            given.put(job)
        return islice(verdicts, len(jobs))

    yield lambda jobs, unsaid=is_without_verdict: _rows(run, jobs, unsaid)
    given.put(None)
    assert list(verdicts) == []


def _rows(run, jobs, unsaid):
    rows, left = {}, list(jobs)
    for _ in range(CALMER_TRIES):
        for verdict in run(left):
            rows[verdict.row.key.sample] = verdict.row
        left = [job for job in left if unsaid(rows[job.key.sample])]
        if not left:
            break
    return rows


def own_processes() -> set[int]:
    """Everything that this process has started and that is still there."""
    return set(sandbox.descendants(os.getpid())) - {os.getpid()}


def command_lines() -> list[str]:
    """The command line of every process on this machine."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return found
