"""A stand made ready: how fast its reference is, and as many inputs as fill a deal."""

from __future__ import annotations

import torch

from kernel_evaluator.candidate.processes import RunnerProcess
from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.stand.batches import measure_alone
from kernel_evaluator.stand.sides import ReferenceFailed
from kernel_evaluator.stand.stand import Stand

BRIEF_MS = 0.5
"""Calls that take less are timed once more as many in a row: a single one takes longer."""


def set_up(
    problem: Problem,
    settings: Settings,
    reference: RunnerProcess,
    *,
    fallback: bool,
    may_be_exact: bool = True,
) -> Stand:
    """Make a stand whose reference's pace is known, and whose inputs fill a deal."""
    stand = Stand(problem, settings, reference, fallback=fallback, may_be_exact=may_be_exact)
    try:
        one = many = measure_alone(stand, 1, 2)
        stand.note_pace(min(one.call_ms))
        stand.fill_deal()
        if stand.calls > 1:
            many = measure_alone(stand, stand.calls)
        if stand.alone_ms < BRIEF_MS:
            stand.note_pace(min(many.call_ms))
        stand.note_overheads(one.overhead_ms, max(one.overhead_ms, many.overhead_ms))
        stand.device.give_back()
    except (ReferenceFailed, torch.cuda.OutOfMemoryError):
        stand.close()
        raise
    return stand
