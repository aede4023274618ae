"""What in a measurement a person should look at: clocks apart, work put off or shared, a slowed reference.

Pure arithmetic over what a row carries, so that whoever has the row can ask the same.
"""

from __future__ import annotations

import logging
import math
import statistics
from dataclasses import replace

from kernel_evaluator.timing import pairing
from kernel_evaluator.timing.measurement import Measurement

CLOCK_SHARE = {"cuda": 0.05, "cpu": 0.3}
CLOCK_MS = {"cuda": 0.02, "cpu": 1.0}
"""How much less than the oracle's a claim may be before a person should look; a CPU is shared with others."""

SLOWED_SHARE, SLOWED_MS = {"cuda": 0.25, "cpu": 0.5}, {"cuda": 0.02, "cpu": 0.1}
"""By this share, and so much more, a call of the reference may be slower beside a candidate than alone."""
DEFERRED_SHARE = {"cuda": 0.03, "cpu": 0.3}
"""So much of a call, put off until an output is asked for, is not charged."""
PLACED_SHARE = 0.2
"""A delivery may take so much longer than the reference's for where outputs lie: it shows in gigabytes."""
CHANCE = 5.0
"""Two standard errors of a median of differences, where one side's median deviation and a root are known."""

REFERENCE_SLOWED, UNSTEADY = "ReferenceSlowed", "Unsteady"
RAN_WHILE_STOPPED = "RanWhileStopped"
RAN_SHARE = 0.05
"""For this share of the pauses threads may run while they come to a stop."""

LONE_MS = {"cuda": 0.06, "cpu": 0.3}
"""A call alone may take twice what it takes among others, and so much more."""

WIDEST = {"cuda": 0.35, "cpu": 2.0}
"""Half of an interval, as a share of the speedup; the widest of an honest row, of a copy of 3/36, is 0.29."""

_log = logging.getLogger(__name__)


def judge_all(found: Measurement, device: str) -> None:
    """Say what follows from a measurement that is complete: its charge, its labels, its suspicion."""
    found.deferred_ms, found.labels, found.suspicion = 0.0, [], None
    charge_deferred(found, device)
    judge_lone(found, device)
    judge_clocks(found, device)
    judge_pauses(found)
    if not found.suspicion:
        judge_reference(found, device)
    if not found.suspicion:
        judge_interval(found, device)


def charge_deferred(found: Measurement, device: str) -> None:
    """Charge every call what is done only when an output is asked for, where that is beyond chance.

    It shows in each delivery (done when asked for) or in the first one (not yet done). A kernel may do so in
    some rounds only: with what they put off, rounds that were looked at must not take longer, beside the
    reference, than all claim. How far chance goes the reference's deliveries say. One that is slow at first
    and never late is charged nothing.
    """
    looks = [(r, r.look) for r in found.rounds if r.look]
    if len(looks) < pairing.MIN_ROUNDS:
        return
    late = [_lateness_ms(r, look, PLACED_SHARE) for r, look in looks]
    deferred_ms = _put_off_ms(found, late)
    as_a_whole = [max(_later_ms(look, PLACED_SHARE)) / r.calls for r, look in looks]
    deliveries_ms = [_mean_an_output(look, look.reference_ms) for _, look in looks]
    chance_ms, stray_ms = _chance(deliveries_ms), max(deliveries_ms) - statistics.median(deliveries_ms)
    chance_as_a_whole_ms = _chance([max(look.reference_ms) / r.calls for r, look in looks])
    _log.debug("put off %.4f ms a call, chance %.4f", deferred_ms, chance_ms)
    is_chance = deferred_ms <= chance_ms and statistics.median(as_a_whole) <= chance_as_a_whole_ms
    is_late = statistics.quantiles(late)[2] > deferred_ms / 2 or max(late) > max(deferred_ms / 2, stray_ms)
    if deferred_ms > DEFERRED_SHARE[device] * found.claimed_ms and is_late and not is_chance:
        found.deferred_ms = _put_off_ms(found, [_lateness_ms(r, look, 0.0) for r, look in looks])
        found.labels.append("deferred-work")


def _put_off_ms(found: Measurement, late: list[float]) -> float:
    """Milliseconds of a call that are put off, by how late each round was that was looked at."""
    return max(_more_than_claimed_ms(found, late), statistics.median(late))


def _more_than_claimed_ms(found: Measurement, late: list[float]) -> float:
    """Milliseconds by which rounds that were looked at, with what they put off, take longer than all claim.

    Beside the reference, whose speed may differ from round to round.
    """
    claimed = statistics.median(r.candidate_ms / r.reference_ms for r in found.rounds)
    looked_at = [r for r in found.rounds if r.look]
    charged = statistics.median(
        (r.candidate_ms + ms) / r.reference_ms for r, ms in zip(looked_at, late, strict=True)
    )
    return (charged - claimed) * statistics.median(r.reference_ms for r in found.rounds)


def _lateness_ms(r: pairing.Round, look: pairing.Look, forgiven: float) -> float:
    """Milliseconds a call by which outputs came late: each in the mean, or the latest for the whole batch."""
    later = _later_ms(look, forgiven)
    return max(_mean_an_output(look, later), max(later) / r.calls)


def _later_ms(look: pairing.Look, forgiven: float) -> list[float]:
    """Milliseconds by which each delivery was later than the reference's and such a share of it."""
    pairs = zip(look.candidate_ms, look.reference_ms, strict=True)
    return [ours - (1 + forgiven) * theirs for ours, theirs in pairs]


def _mean_an_output(look: pairing.Look, milliseconds: list[float]) -> float:
    """The mean over outputs, delivered alone or at once."""
    return sum(milliseconds) / sum(look.counts)


def _chance(values: list[float]) -> float:
    """How far the median of as many differences may lie from zero, by the scatter of one side's values."""
    middle = statistics.median(values)
    return CHANCE * statistics.median(abs(x - middle) for x in values) / math.sqrt(len(values))


def judge_pauses(found: Measurement) -> None:
    """What is stopped must stand still: else it slows the reference, and what is taken for overhead."""
    if found.paused_ms is None:
        return
    paused_ms, ran_ms = found.paused_ms
    if ran_ms > RAN_SHARE * paused_ms:
        message = f"stopped for {paused_ms:.1f} ms, it used {ran_ms:.1f} ms of processors meanwhile"
        found.suspicion = (RAN_WHILE_STOPPED, message)


def judge_reference(found: Measurement, device: str) -> None:
    """The reference must not be slower beside the candidate than alone: somebody else would be at work."""
    if found.alone_ms is not None and is_slowed(found, device):
        times = f"{found.alone_ms:.4f} ms alone and {found.reference_ms:.4f} ms beside the candidate"
        found.suspicion = (REFERENCE_SLOWED, f"the reference takes {times}")


def judge_interval(found: Measurement, device: str) -> None:
    """The rounds must say how fast it is: an interval that holds nearly everything says nothing."""
    said = found.fields()
    speedup, (low, high) = said["speedup"], said["speedup_ci95"]
    width = max(high - speedup, speedup - low) / speedup
    if width > WIDEST[device]:
        message = f"its speedup is {speedup:.3g} within {low:.3g} to {high:.3g}, {width:.0%} to a side"
        found.suspicion = (UNSTEADY, message)


def is_slowed(found: Measurement, device: str) -> bool:
    """Whether the reference was slower beside the candidate than alone; on a CPU where others are calm.

    Where its memory lies well: bad luck of its own is nobody's work.
    """
    if found.alone_ms is None or (device == "cpu" and found.is_busy):
        return False
    return found.best_reference_ms > (1 + SLOWED_SHARE[device]) * found.alone_ms + SLOWED_MS[device]


def judge_lone(found: Measurement, device: str) -> None:
    """A call alone must not take far longer than a call among many: else one call did the work of others.

    To launch a call and to do it overlap among many, and come one after the other alone: it takes twice as
    long at most, or longer by what the reference's takes longer. What is late is added. Of the reference's
    only rounds count before which the candidate could not know that they come.
    """
    theirs = [r.reference_ms for r in found.lone if r.reference_first]
    if len(found.lone) < pairing.MIN_ROUNDS or not theirs:
        return
    claimed_ms = statistics.median(r.candidate_ms for r in found.lone)
    late = [max(_later_ms(r.look, PLACED_SHARE)) if r.look else 0.0 for r in found.lone]
    late_ms = max(0.0, statistics.median(late))
    alone_ms = max(claimed_ms, pairing.oracle_ms(found.lone)) + late_ms
    among_ms = max(found.claimed_ms, found.oracle_ms) + found.deferred_ms
    later_ms = statistics.median(theirs) - found.reference_ms
    _log.debug("alone %.4f ms, among many %.4f, the reference's %.4f later", alone_ms, among_ms, later_ms)
    if alone_ms > among_ms + max(among_ms, later_ms) + LONE_MS[device]:
        message = f"a call alone takes {alone_ms:.4f} ms, a call in a batch {among_ms:.4f} ms"
        found.suspicion = ("WorkSharedBetweenCalls", message)


def judge_clocks(found: Measurement, device: str) -> None:
    """A claim must not be far below what the oracle's clock says: of all rounds, and in those looked at.

    Else a kernel could work where looks are certain and put work off elsewhere, with the same claim.
    """
    oracle, claim = found.oracle_ms, found.claimed_ms
    beyond = max(oracle - claim, _beyond_claims_ms([r for r in found.rounds if r.look]))
    if beyond > max(CLOCK_SHARE[device] * oracle, CLOCK_MS[device]):
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
