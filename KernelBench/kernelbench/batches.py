"""Batches as the measurement runs them: with the side's context back on the device, its memory drawn anew."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from kernelbench.bench import Bench
from kernelbench.sides import Side

_log = logging.getLogger(__name__)
_secret = random.SystemRandom()


def run_timed(
    bench: Bench,
    side: Side,
    order: list[int],
    seed: int,
    left_s: float,
    *,
    written: list[int] | None = None,
) -> tuple[float, float]:
    """Milliseconds of a batch by the oracle's clock and by the side's own; `written` is the bench's.

    The empty batch before brings the side's context back onto the device, which takes a while of its own.
    """
    bench.run_batch(side, [], seed, left_s)
    wall_ms, claimed_ms = bench.run_batch(side, order, seed, left_s, written=written)
    name = "reference" if side.trusted else "candidate"
    _log.debug("%s, %d calls: %.5f ms by its clock, %.5f by ours", name, len(order), claimed_ms, wall_ms)
    return wall_ms, claimed_ms


def draw_memory(bench: Bench, side: Side, calls: int, left_s: Callable[[], float], *, at_first: bool) -> None:
    """Let sides take their memory anew and warm up: both at first, later each by the toss of a coin.

    Where large blocks happen to lie makes some kernels up to 30 % slower, for as long as they lie there. They
    often alternate between two places: with a draw each time, both sides would, in step or never. The
    reference's weights move too; a candidate may have kept where its own lie.
    """
    for each in _secret.sample((bench.reference, side), 2):
        if at_first or _secret.random() < 1 / 2:
            if each.trusted:
                bench.move_reference()
            count = bench.calls if each.trusted else calls
            bench.run_batch(each, list(range(count)), 0, left_s(), fresh=True)
