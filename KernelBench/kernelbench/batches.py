"""Batches as the measurement runs them: with the side's context back on the device, its memory drawn anew."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kernelbench.bench import Bench
from kernelbench.sides import Side

_log = logging.getLogger(__name__)


def run_timed(bench: Bench, side: Side, order: list[int], seed: int, left_s: float) -> tuple[float, float]:
    """Milliseconds of a batch by the oracle's clock and by the side's own.

    The empty batch before brings the side's context back onto the device, which takes a while of its own.
    """
    bench.run_batch(side, [], seed, left_s)
    wall_ms, claimed_ms = bench.run_batch(side, order, seed, left_s)
    name = "reference" if side.trusted else "candidate"
    _log.debug("%s, %d calls: %.5f ms by its clock, %.5f by ours", name, len(order), claimed_ms, wall_ms)
    return wall_ms, claimed_ms


def draw_memory(bench: Bench, side: Side, left_s: Callable[[], float]) -> None:
    """Let both sides take their memory anew, and warm them up.

    Where large blocks happen to lie makes some kernels up to 30 % slower, for as long as they lie there.
    """
    for each in (bench.reference, side):
        bench.run_batch(each, [], 0, left_s(), fresh=True)
        for _ in range(2):
            bench.run_batch(each, list(range(bench.sets)), 0, left_s())
