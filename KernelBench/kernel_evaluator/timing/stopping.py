"""When timing may end: how narrow an interval must be, how long that may take, which kernels are slow.

Pure arithmetic over a measurement; no clock, no device.
"""

from __future__ import annotations

from kernel_evaluator.timing import pairing
from kernel_evaluator.timing.measurement import Measurement

HALF_WIDTH = 0.005
"""Timing stops when the 95 % interval of the speedup is within this, relative, to either side."""

SLOWER, SLOWER_HALF_WIDTH = 0.9, 0.015
MUCH_SLOWER, MUCH_SLOWER_HALF_WIDTH = 0.25, 0.05
"""So wide it may be where the speedup is below these: to know better how slow a kernel is helps nobody."""

SLOW_MS, SLOW_BESIDE_MS = 250.0, 50.0
"""Where a call takes so long a kernel is called as seldom as can be: in few trials, and for six rounds.

Beside a reference that is much faster the second says so.
"""

BUDGET_S = {"cuda": 0.3, "cpu": 2.0}
PATIENCE_S, OPEN_TIMES = {"cuda": 1.0, "cpu": 2.8}, 2
LOOSE_HALF_WIDTH = 0.007
"""After the budget this is good enough; what is looser still may take as long as patience lasts.

So many times as long where a clock is in doubt, or the interval is wider than any that is asked for.
"""

MIN_DEALS = 4

DOUBTED_TIMES = 3
"""So many times the rounds are made where the oracle's clock does not bear out the candidate's: by chance?

These decide, once: to stop as soon as both agree would favour who claims too little.
"""

OUT_OF_TIME_S = 5.0


def is_enough(device: str, found: Measurement, *, has_unseen: bool, spent_s: float, left_s: float) -> bool:
    """Whether timing may end; `has_unseen` where a distribution that decides was not looked at yet.

    Notes in `found` whether its interval is narrow, and how many rounds a clock in doubt asks for.
    """
    budget_s = BUDGET_S[device]
    if found.deals < MIN_DEALS or len(found.rounds) < pairing.MIN_ROUNDS:
        return False
    says_nothing = min(r.candidate_ms for r in found.rounds) <= 0
    counted = found.counted
    is_wide = not says_nothing and not pairing.is_tight(counted, MUCH_SLOWER_HALF_WIDTH)
    times = OPEN_TIMES if is_wide or found.is_stretched else 1
    is_late = left_s < OUT_OF_TIME_S or spent_s > times * PATIENCE_S[device]
    if is_late or is_slow(found.claimed_ms, found.reference_ms):
        return True
    found.is_tight = not says_nothing and pairing.is_tight(counted, half_width(found, spent_s > budget_s))
    if has_unseen and spent_s < budget_s:
        return False
    if says_nothing:
        return spent_s > budget_s
    if not found.is_tight:
        return False
    if not found.rounds_wanted and found.is_stretched:
        found.rounds_wanted = DOUBTED_TIMES * len(found.rounds)
    return len(found.rounds) >= found.rounds_wanted


def is_slow(candidate_ms: float, reference_ms: float) -> bool:
    """Whether a kernel whose calls take so long is to be called as seldom as can be."""
    return candidate_ms >= (SLOW_BESIDE_MS if candidate_ms * MUCH_SLOWER > reference_ms else SLOW_MS)


def half_width(found: Measurement, is_late: bool) -> float:
    """How wide the interval may be, by what it can change: the more, the slower a kernel is."""
    ratio = found.reference_ms / max(found.claimed_ms, found.oracle_ms)
    if ratio < MUCH_SLOWER:
        return MUCH_SLOWER_HALF_WIDTH
    if ratio < SLOWER:
        return SLOWER_HALF_WIDTH
    return LOOSE_HALF_WIDTH if is_late else HALF_WIDTH
