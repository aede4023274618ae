"""The paired measurement: fresh inputs, a batch of each side, and a look at what the timed calls gave.

Both sides say what their own clock saw; the oracle's clock runs beside. Work put off until an output is asked
for is charged where it shows.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from functools import partial

from kernel_evaluator import secret_draws
from kernel_evaluator.stand.batches import measure_anew, place_memory, run_timed
from kernel_evaluator.stand.sides import Side
from kernel_evaluator.stand.stand import Stand
from kernel_evaluator.timing import pairing, suspicions, timed_outputs
from kernel_evaluator.timing.deck import Deck
from kernel_evaluator.timing.measurement import Measurement
from kernel_evaluator.timing.stopping import (
    MIN_DEALS,
    MUCH_SLOWER,
    is_enough,
    is_slow,
)

DEALS_A_PLACING = 2
"""So many deals are made in the same memory; the first ones have it taken anew each, if of several rounds."""

WHO_IS_PLACED = ((True, True), (True, False), (True, True), (False, True))
"""Which of the two sides take their memory anew, in turns: two places that alternate meet in all ways."""

FEW_ROUNDS, MANY_ROUNDS = 2, 6
"""So often the sides take turns within a deal: seldom at first, more often once noise has shown."""

LOOKED_AT = 0.5
"""With this chance outputs of a round are looked at, once every distribution and the first rounds were."""

MUCH_FASTER = 2
"""A candidate so many times as fast as the reference gets more calls a deal: few would say little of it."""

TIMES_ALONE, TIMES_SLOW_ALONE = 8, 3
"""So often the reference is timed alone once more where it was slow; less often where a deal is one call."""


def measure(
    stand: Stand,
    side: Side,
    left_s: Callable[[], float],
    verify: timed_outputs.Verifier,
    deck: Deck,
    pace_ms: float = 0.0,
) -> Measurement:
    """Deal inputs until the interval is tight or the time is spent; `verify` raises on a wrong output.

    `pace_ms` is what a call of the candidate took in the trials, where that is known. It decides nothing but
    how many calls the first deal has.
    """
    started = time.monotonic()
    waited_s, worked_s = stand.reference.waited_s, stand.reference.worked_s
    paused_s, ran_s = side.process.paused_s, side.process.ran_paused_s
    found = _begin(stand, deck, _calls_at(stand, pace_ms, stand.alone_ms))
    sides = secret_draws.in_any_order((stand.reference, side))
    may_be_few = True
    while True:
        if placed := _to_place(stand, found, pace_ms, sides):
            for each in placed:
                with side.process.paused() if each.trusted else nullcontext():
                    calls = found.reference_calls if each.trusted else found.calls
                    place_memory(stand, each, calls, left_s())
            found.placings += 1
        found.rounds += _deal(stand, side, left_s, verify, found, deck)
        found.deals += 1
        if found.deals == 1 or found.calls < stand.calls:
            calls = _calls_for(stand, found)
            is_to_be_few = may_be_few and calls <= MUCH_SLOWER * found.calls
            may_be_few = may_be_few and calls <= found.calls  # else it could go to and fro
            if calls >= MUCH_FASTER * found.calls or is_to_be_few:
                found = _begin_again(stand, side, deck, calls, left_s())
        if is_enough(
            stand.device.kind,
            found,
            has_unseen=bool(deck.unseen),
            spent_s=time.monotonic() - started,
            left_s=left_s(),
        ):
            break
    worked_s = stand.reference.worked_s - worked_s
    paused_s, ran_s = side.process.paused_s - paused_s, side.process.ran_paused_s - ran_s
    found.paused_ms = pairing.noted(1e3 * paused_s), pairing.noted(1e3 * ran_s)
    # What the candidate itself ran meanwhile is no excuse of its own.
    waited_s = max(0.0, stand.reference.waited_s - waited_s - ran_s)
    found.waited_share = pairing.noted(waited_s / max(worked_s, 1e-9))
    suspicions.judge_all(found, stand.device.kind)
    return found


def hold_against_alone(stand: Stand, side: Side, found: Measurement) -> None:
    """Hold what the reference takes beside the candidate, and what surrounds its calls, against both alone.

    What looks slow is measured again, as many calls in a row as beside the candidate: the machine itself may
    have slowed, or the reference's memory lie badly. The candidate's process is ended for that, since to stop
    it does not stop what it left on the device.
    """
    one_ms, all_ms = stand.overheads_ms
    found.alone_ms = pairing.noted(stand.alone_ms)
    found.alone_overheads_ms = pairing.noted(one_ms), pairing.noted(all_ms)
    if suspicions.is_slowed(found, stand.device.kind) or found.is_bounded:
        side.process.end()
        calls = found.reference_calls
        times = TIMES_ALONE if stand.calls > 1 else TIMES_SLOW_ALONE
        anew = [measure_anew(stand, calls) for _ in range(times)]
        found.alone_ms = pairing.noted(max(ms for each in anew for ms in each.call_ms))
        usual_ms = max(found.overhead_alone_ms(calls), 1e-3)
        grown = max(1.0, *(each.overhead_ms / usual_ms for each in anew))
        found.alone_overheads_ms = pairing.noted(grown * one_ms), pairing.noted(grown * all_ms)
    suspicions.judge_all(found, stand.device.kind)


def _begin(stand: Stand, deck: Deck, calls: int) -> Measurement:
    _refill(stand, deck.deal(calls))
    believes = "clocks" in stand.settings.switched_off
    return Measurement(calls=calls, reference_calls=min(calls, stand.calls), believes=believes)


def _begin_again(stand: Stand, side: Side, deck: Deck, calls: int, left_s: float) -> Measurement:
    """Begin with more calls a deal, for which inputs may have to lie elsewhere."""
    with side.process.paused():
        is_moved = stand.hold(calls)
        found = _begin(stand, deck, calls)
        if is_moved:
            stand.inputs.survey(calls)
    if is_moved:
        stand.inputs.show(side, left_s)
    return found


def _to_place(stand: Stand, found: Measurement, pace_ms: float, sides: Sequence[Side]) -> list[Side]:
    """Which sides have memory taken anew before the next deal, for which they are called once to warm up.

    A slow kernel is spared that, and its reference all but the first. On a CPU both keep what they have.
    """
    is_first = found.deals == 0
    if is_slow(found.claimed_ms if found.rounds else pace_ms, stand.alone_ms):
        return [stand.reference] if is_first else []
    is_early = found.deals < MIN_DEALS and found.calls > 1
    is_anew = stand.device.is_gpu and (is_early or found.deals % DEALS_A_PLACING == 0)
    if not (is_first or is_anew):
        return []
    return [*itertools.compress(sides, WHO_IS_PLACED[found.placings % len(WHO_IS_PLACED)])]


def _calls_for(stand: Stand, found: Measurement) -> int:
    """How many calls a deal the candidate should have, by the slower of its own clock and the oracle's.

    Few only as long as both say that it is slow: what a clock may be off by is spread over a deal's calls.
    """
    reference_ms = statistics.median(r.reference_ms for r in found.rounds)
    candidate_ms = max(found.claimed_ms, found.oracle_ms)
    if found.calls < stand.calls or candidate_ms * MUCH_FASTER > reference_ms:
        return _calls_at(stand, min(found.claimed_ms, found.oracle_ms), reference_ms)
    return stand.calls_for(candidate_ms)


def _calls_at(stand: Stand, candidate_ms: float, reference_ms: float) -> int:
    """As many calls as fill a deal of the reference's, and of its own for a candidate that is much slower."""
    if candidate_ms * MUCH_SLOWER <= reference_ms:
        return stand.calls
    return min(stand.calls, stand.calls_for(candidate_ms))


def _deal(
    stand: Stand,
    side: Side,
    left_s: Callable[[], float],
    verify: timed_outputs.Verifier,
    found: Measurement,
    deck: Deck,
) -> list[pairing.Round]:
    """Fresh inputs for some rounds: on a part of them first one side, then the other; the next the other way.

    After which rounds outputs are looked at a coin says for each, so that no call is safe to leave out and no
    look tells of another; after all as long as a distribution was not seen, or too few looks say little.
    After some, drawn too, comes one of a single call on inputs that are drawn for it.
    """
    count = (
        FEW_ROUNDS if found.deals < MIN_DEALS else max(FEW_ROUNDS, min(MANY_ROUNDS, found.reference_calls))
    )
    parts = [pairing.Part(*dealt) for dealt in secret_draws.dealt(found.calls, found.reference_calls, count)]
    if found.deals % 2 == 0:
        secret_draws.shuffle(found.order)
    pair = [stand.reference if is_trusted else side for is_trusted in found.order]
    found.order.reverse()
    looks = sum(r.look is not None for r in found.rounds)
    sees_all = bool(deck.unseen) or len(parts) == 1 or looks < pairing.MIN_ROUNDS
    looked_at = [sees_all or secret_draws.happens(LOOKED_AT) for _ in parts]
    names = [""] * found.calls
    for part in parts:
        for at, name in zip(part.candidate, deck.deal(len(part.candidate)), strict=True):
            names[at] = name
    drawn = _refill(stand, names)
    play = partial(_round, stand, left_s, verify, found)
    followed = [secret_draws.one(range(len(parts))) for _ in range(_lone_rounds(found, len(parts)))]
    rounds = []
    for number, (part, is_looked_at) in enumerate(zip(parts, looked_at, strict=True)):
        rounds.append(play(pair, part, drawn, deck.unseen if is_looked_at else None))
        pair.reverse()
        for _ in range(followed.count(number)):
            at = secret_draws.one(part.reference)
            drawn[at] = _draw(stand, at, deck.deal(1)[0])
            sides = [stand.reference, side] if len(found.lone) % 2 == 0 else [side, stand.reference]
            with deck.aside():
                found.lone.append(play(sides, pairing.Part([at], [at]), drawn, ()))
    return rounds


def _lone_rounds(found: Measurement, rounds: int) -> int:
    """How many rounds of a deal are of a single call, whose inputs nobody sees before: at first most."""
    if found.calls < pairing.LEAST_SHARED:
        return 0
    return rounds if found.deals < MIN_DEALS else 1


def _round(
    stand: Stand,
    left_s: Callable[[], float],
    verify: timed_outputs.Verifier,
    found: Measurement,
    pair: Sequence[Side],
    part: pairing.Part,
    drawn: list[tuple[int, str]],
    unseen: Collection[str] | None,
) -> pairing.Round:
    """A batch of each of a pair of sides, in that order; outputs are looked at unless `unseen` is None."""
    (side,) = (each for each in pair if not each.trusted)
    seed = secret_draws.seed()
    kept: list[timed_outputs.Kept] = []
    spent = {}
    if not found.is_tight:
        stand.core.renew(side)
    began = time.monotonic()
    for each in pair:
        order = part.reference if each.trusted else part.candidate
        if not found.is_tight:
            stand.core.renew(side, began)
        with side.process.paused() if each.trusted else nullcontext():
            spent[each.trusted] = run_timed(stand, each, order, seed, left_s(), written=part.candidate)
        if each.trusted:
            stand.spare(each, outputs=False)
        elif unseen is not None:
            claimed_ms = spent[False][1] / len(part.candidate)
            chosen = timed_outputs.choose(stand, part, drawn, claimed_ms, unseen)
            kept = timed_outputs.collect(stand, side, part, chosen, left_s)
    look = None
    if kept:
        with side.process.paused():
            look = timed_outputs.verify(stand, part, drawn, kept, verify)
    stand.spare(stand.reference)
    return pairing.round_of(
        part,
        spent[True],
        spent[False],
        bias_ms=stand.inputs.writing_bias_ms,
        reference_first=pair[0].trusted,
        placing=found.placings,
        look=look,
    )


def _refill(stand: Stand, distributions: Sequence[str]) -> list[tuple[int, str]]:
    """Fresh inputs for every set, not yet shown to anybody; give each one's seed and distribution."""
    drawn = [_draw(stand, at, distribution) for at, distribution in enumerate(distributions)]
    for at in range(len(drawn), stand.inputs.count):
        stand.inputs.forget(at)  # of a kernel that made more calls
    return drawn


def _draw(stand: Stand, at: int, distribution: str) -> tuple[int, str]:
    """Fresh inputs for one set, not yet shown to anybody; give their seed and distribution."""
    seed = secret_draws.seed()
    stand.inputs.put(at, partial(stand.source.draw, seed, distribution), secretly=True)
    return seed, distribution
