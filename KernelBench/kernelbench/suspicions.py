"""What in a measurement a person should look at: clocks apart, work put off or shared, a slowed reference."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable

from kernelbench import pairing
from kernelbench.batches import measure_anew, run_timed
from kernelbench.bench import Bench
from kernelbench.measurement import Measurement
from kernelbench.sides import Side

CLOCK_SHARE = {"cuda": 0.05, "cpu": 0.3}
CLOCK_MS = {"cuda": 0.02, "cpu": 1.0}
"""How much less than the oracle's a claim may be before a person should look; a CPU is shared with others."""

SLOWED_SHARE, TIMES_ALONE = 0.25, 8
DEFERRED_SHARE = 0.03
SHARED_SHARE = 0.25
"""A call alone that takes this share of a whole deal may have done the deal's work."""

_secret = random.SystemRandom()


def charge_deferred(found: Measurement) -> None:
    """Charge every call what is done only when an output is asked for, where lateness is beyond chance."""
    if len(found.lateness_ms) < pairing.MIN_ROUNDS:
        return
    late_ms = statistics.median(found.lateness_ms)
    if late_ms > DEFERRED_SHARE * found.claimed_ms:
        found.deferred_ms = late_ms
        found.labels.append("deferred-work")


def judge_reference(bench: Bench, side: Side, found: Measurement) -> None:
    """The reference must not be slower beside the candidate than alone: somebody else would be at work.

    What looks slow is measured again, since the machine itself may have slowed or the reference's memory lie
    badly. The candidate's process is ended for that: to stop it does not stop what it left on the device.
    """
    beside = statistics.median(r.reference_ms for r in found.rounds)
    if bench.device == "cpu" or beside <= _slowed(bench.alone_ms, bench.device):
        return
    side.process.end()
    alone = max(measure_anew(bench) for _ in range(TIMES_ALONE))
    if beside > _slowed(alone, bench.device):
        message = f"the reference takes {alone:.4f} ms alone and {beside:.4f} ms beside the candidate"
        found.suspicion = ("ReferenceSlowed", message)


def _slowed(alone_ms: float, device: str) -> float:
    return (1 + SLOWED_SHARE) * alone_ms + CLOCK_MS[device]


def judge_single(bench: Bench, side: Side, left_s: Callable[[], float], found: Measurement) -> None:
    """A call alone must not cost far more than a call among many: else one call did the work of all."""
    if found.calls < 4:
        return

    def alone(each: Side) -> tuple[float, float]:
        return min(run_timed(bench, each, [_secret.randrange(found.calls)], 0, left_s()) for _ in range(3))

    wall_ms, claimed_ms = alone(bench.reference)
    found.single_ms = alone(side)[0] - (wall_ms - claimed_ms)
    honest = max(3 * found.oracle_ms, 3 * claimed_ms if found.calls == bench.calls else 0.0) + 0.2
    if found.single_ms > honest and found.single_ms > SHARED_SHARE * found.oracle_ms * found.calls:
        message = f"a call alone takes {found.single_ms:.4f} ms, a call in a batch {found.oracle_ms:.4f} ms"
        found.suspicion = ("WorkSharedBetweenCalls", message)


def judge_clocks(bench: Bench, found: Measurement) -> None:
    """A claim must not be far below what the oracle's clock says."""
    oracle, claim = found.oracle_ms, found.claimed_ms
    if oracle - claim > max(CLOCK_SHARE[bench.device] * oracle, CLOCK_MS[bench.device]):
        message = f"the oracle's clock says {oracle:.5f} ms a call, the process says {claim:.5f} ms"
        found.suspicion = ("ClocksDisagree", message)
