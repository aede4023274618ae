"""Does a correct kernel hold elsewhere: on other shapes, and on inputs that lie otherwise in memory?

Asked after the verdict, of correct kernels; it changes labels alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kernel_evaluator import secret_draws
from kernel_evaluator.candidate.processes import RunFailed
from kernel_evaluator.judging import trials
from kernel_evaluator.judging.hearing import Hearing, Ruled
from kernel_evaluator.problems.inputs import InputSource
from kernel_evaluator.problems.other_shapes import other_shapes
from kernel_evaluator.stand.sides import ReferenceFailed

GENERAL, FIXED_SHAPE, WRONG = "general", "fixed-shape", "wrong-elsewhere"

PATIENCE_S = 20.0
"""So long a kernel may take for what it is asked here, in all: it may compile anew."""

_RIGHT, _REFUSED = "right", "refused"


def look(hearing: Hearing) -> tuple[str, dict[str, str] | None]:
    """Try a few calls; give a label, or none where nothing could be tried, and what came of each try."""
    found = dict(_tries(hearing))
    outcomes = set(found.values())
    if not outcomes:
        return "", None
    if outcomes == {_RIGHT}:
        return GENERAL, found
    return FIXED_SHAPE if outcomes <= {_RIGHT, _REFUSED} else WRONG, found


def _tries(hearing: Hearing) -> Iterator[tuple[str, str]]:
    """Other shapes, then inputs that lie otherwise, of those shapes if they were right: these are small."""
    stand, side = hearing.stand, hearing.require_side()
    hearing.allowed_s = hearing.process.waited_s + min(PATIENCE_S, hearing.left_s())
    last_right = stand.problem
    others = other_shapes(last_right, hearing.job.kernel_sha256)
    with stand.away():
        for name, other in [*([others] if others else []), ("inputs transposed in memory", None)]:
            problem, is_swapped = other or last_right, other is None
            source = InputSource(problem, stand.settings.device, stand.source.precision)
            if is_swapped and all(len(leaf.shape) < 2 for leaf in source.leaves):
                continue
            try:
                stand.move(side, source, hearing.left_s(), swapped=is_swapped)
                outcome = _outcome(hearing)
                last_right = problem if outcome == _RIGHT else last_right
                yield name, outcome
            except (ReferenceFailed, torch.cuda.OutOfMemoryError):
                continue  # the problem or the device allows no such inputs
            except RunFailed as error:
                yield name, f"died: {error.name}"
                break


def _outcome(hearing: Hearing) -> str:
    try:
        trials.trial(hearing, "upstream", secret_draws.seed())
    except Ruled as ruled:
        return f"wrong: {ruled.message}"[:300]
    except RunFailed as error:
        if error.name in ("Timeout", "ProcessDied", "ProtocolViolation"):
            raise
        return _REFUSED
    return _RIGHT
