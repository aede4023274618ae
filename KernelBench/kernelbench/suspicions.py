"""What in a measurement a person should look at: clocks apart, work put off or shared, a slowed reference."""

from __future__ import annotations

import logging
import math
import random
import statistics
from collections.abc import Callable
from dataclasses import replace

from kernelbench import pairing
from kernelbench.batches import measure_anew, run_timed
from kernelbench.bench import Bench
from kernelbench.measurement import Measurement
from kernelbench.sides import Side

CLOCK_SHARE = {"cuda": 0.05, "cpu": 0.3}
CLOCK_MS = {"cuda": 0.02, "cpu": 1.0}
"""How much less than the oracle's a claim may be before a person should look; a CPU is shared with others."""

SLOWED_SHARE, TIMES_ALONE = 0.25, 8
DEFERRED_MS, LATE_MS = 0.05, 0.15
"""Put off unseen may be: so much of a call, where it is done when asked for, and so much of a whole batch."""
SOONER_MS = 0.1
"""An output that comes sooner than the reference's makes up for one that comes late by no more than this."""
PLACED_SHARE = 0.2
"""A delivery may take so much longer than the reference's for where outputs lie: it shows in gigabytes."""
DEFERRED_SHARE = {"cuda": 0.03, "cpu": 0.3}
MUCH_DEFERRED, MUCH_BY_CHANCE = 0.25, 0.1
"""Shares of what is claimed: to be charged; for a person to look where few came late, or most by chance."""
CHANCE = 5.0
"""Two standard errors of a median of differences, where one side's median deviation and a root are known."""

SHARED_SHARE = 0.25
"""A call alone that takes this share of a whole deal may have done the deal's work."""

_log = logging.getLogger(__name__)
_secret = random.SystemRandom()


def charge_deferred(found: Measurement, device: str) -> None:
    """Charge every call what is done only when an output is asked for, where that is beyond chance.

    It shows in each delivery (done when asked for) or in the first one (not yet done). A kernel may do so in
    some rounds only: with what they put off, rounds that were looked at must not take longer, beside the
    reference, than all claim. How far chance goes the reference's deliveries say. Where the difference is
    large all the same, be it that few looks were late, or most and that may be chance, a person should look:
    by stalling a kernel can see to it that there are few looks, and chance goes far.
    """
    looks = [(r, r.look) for r in found.counted if r.look]
    if len(looks) < pairing.MIN_ROUNDS:
        return
    as_a_whole = [(_latest_ms(look) - LATE_MS) / r.calls for r, look in looks]
    late = [max(_lateness_ms(look), ms) for (_, look), ms in zip(looks, as_a_whole, strict=True)]
    deferred_ms = max(_more_than_claimed_ms(found, late), statistics.median(late))
    deliveries_ms = [_an_output_ms(look) for _, look in looks]
    chance_ms = _chance(deliveries_ms)
    chance_as_a_whole_ms = _chance([max(look.reference_ms) / r.calls for r, look in looks])
    _log.debug("put off %.4f ms a call, chance %.4f", deferred_ms, chance_ms)
    if deferred_ms <= DEFERRED_SHARE[device] * found.claimed_ms:
        return
    is_chance = deferred_ms <= chance_ms and statistics.median(as_a_whole) <= chance_as_a_whole_ms
    most_are_late = statistics.quantiles(late)[2] > deferred_ms / 2
    if most_are_late and not is_chance:
        unforgiven = [max(_all_lateness_ms(r, look), ms) for (r, look), ms in zip(looks, late, strict=True)]
        found.deferred_ms = max(_more_than_claimed_ms(found, unforgiven), statistics.median(unforgiven))
        found.labels.append("deferred-work")
        return
    stray_ms = max(deliveries_ms) - statistics.median(deliveries_ms)
    some_are_late = not is_chance and max(late) > max(deferred_ms / 2, stray_ms)
    in_all_ms = statistics.median(ms * max(look.counts) for (_, look), ms in zip(looks, late, strict=True))
    many_are_late = most_are_late and in_all_ms > LATE_MS
    least_share = MUCH_BY_CHANCE if many_are_late else MUCH_DEFERRED
    if (many_are_late or some_are_late) and deferred_ms > least_share * found.claimed_ms:
        message = f"where outputs were looked at, a call takes {deferred_ms:.4f} ms more than is claimed"
        found.suspicion = ("LooksDiffer", message)


def _more_than_claimed_ms(found: Measurement, late: list[float]) -> float:
    """Milliseconds by which rounds that were looked at, with what they put off, take longer than all claim.

    Beside the reference, whose speed may differ from round to round.
    """
    counted = found.counted
    claimed = statistics.median(r.candidate_ms / r.reference_ms for r in counted)
    looked_at = [r for r in counted if r.look]
    charged = statistics.median(
        (r.candidate_ms + ms) / r.reference_ms for r, ms in zip(looked_at, late, strict=True)
    )
    return (charged - claimed) * statistics.median(r.reference_ms for r in counted)


def _lateness_ms(look: pairing.Look) -> float:
    """Milliseconds by which outputs on usual inputs came late in the mean, beyond what a delivery hides."""
    later = [ms - DEFERRED_MS for ms in _later_ms(look)]
    return _mean_an_output(look, later)


def _all_lateness_ms(r: pairing.Round, look: pairing.Look) -> float:
    """The same with nothing forgiven, or of the whole batch: of a kernel that puts work off beyond doubt."""
    later = [ours - theirs for ours, theirs in zip(look.candidate_ms, look.reference_ms, strict=True)]
    return max(_mean_an_output(look, later), max(later) / r.calls)


def _an_output_ms(look: pairing.Look) -> float:
    """Milliseconds in which the reference delivered an output on usual inputs in the mean."""
    return _mean_an_output(look, look.reference_ms)


def _mean_an_output(look: pairing.Look, milliseconds: list[float]) -> float:
    """The mean over outputs on usual inputs, delivered alone or at once; over all if none was usual."""
    listed = list(zip(milliseconds, look.counts, look.are_usual, strict=True))
    counted = [(ms, count) for ms, count, is_usual in listed if is_usual] or [
        (ms, count) for ms, count, _ in listed
    ]
    return sum(ms for ms, _ in counted) / sum(count for _, count in counted)


def _latest_ms(look: pairing.Look) -> float:
    return max(_later_ms(look))


def _later_ms(look: pairing.Look) -> list[float]:
    """Milliseconds by which each delivery was later than the reference's, but for where outputs may lie."""
    return [
        max(ours - (1 + PLACED_SHARE) * theirs, -SOONER_MS)
        for ours, theirs in zip(look.candidate_ms, look.reference_ms, strict=True)
    ]


def _chance(values: list[float]) -> float:
    """How far the median of as many differences may lie from zero, by the scatter of one side's values."""
    middle = statistics.median(values)
    return CHANCE * statistics.median(abs(x - middle) for x in values) / math.sqrt(len(values))


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

    with side.process.paused():
        wall_ms, claimed_ms = alone(bench.reference)
    found.single_ms = alone(side)[0] - (wall_ms - claimed_ms)
    honest = max(3 * found.oracle_ms, 3 * claimed_ms if found.calls == bench.calls else 0.0) + 0.2
    if found.single_ms > honest and found.single_ms > SHARED_SHARE * found.oracle_ms * found.calls:
        message = f"a call alone takes {found.single_ms:.4f} ms, a call in a batch {found.oracle_ms:.4f} ms"
        found.suspicion = ("WorkSharedBetweenCalls", message)


def judge_clocks(bench: Bench, found: Measurement) -> None:
    """A claim must not be far below what the oracle's clock says: of all rounds, and in those looked at.

    Else a kernel could work where looks are certain and put work off elsewhere, with the same claim.
    """
    oracle, claim = found.oracle_ms, found.claimed_ms
    beyond = max(oracle - claim, _beyond_claims_ms([r for r in found.counted if r.look]))
    if beyond > max(CLOCK_SHARE[bench.device] * oracle, CLOCK_MS[bench.device]):
        message = f"the oracle's clock says {claim + beyond:.5f} ms a call, the process says {claim:.5f} ms"
        found.suspicion = ("ClocksDisagree", message)


def _beyond_claims_ms(rounds: list[pairing.Round]) -> float:
    """By how much the oracle's clock is beyond the claim of the same round; 0 where rounds are too few."""
    begun = sum(r.reference_first for r in rounds)
    if len(rounds) < pairing.MIN_ROUNDS or not 2 <= begun <= len(rounds) - 2:
        return 0.0
    return pairing.oracle_ms(
        [replace(r, candidate_wall_ms=r.candidate_wall_ms - r.candidate_ms) for r in rounds]
    )
