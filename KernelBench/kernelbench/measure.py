"""The paired measurement: fresh inputs, a batch of each side, and a look at what the timed calls gave.

Both sides say what their own clock saw; the oracle's clock runs beside. Work put off until an output is asked
for is charged where it shows.
"""

from __future__ import annotations

import itertools
import random
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial

from kernelbench import pairing, placement, suspicions, timed_outputs
from kernelbench.batches import draw_memory, renew_core, run_timed, writing_bias
from kernelbench.bench import Bench
from kernelbench.measurement import Measurement
from kernelbench.sides import Side

HALF_WIDTH = 0.005
"""Timing stops when the 95 % interval of the speedup is within this, relative, to either side."""

BUDGET_S = {"cuda": 0.5, "cpu": 2.0}
PATIENCE_S = {"cuda": 3.0, "cpu": 2.8}
LOOSE_HALF_WIDTH = 0.007
"""After the budget this is good enough; what is looser still may take as long as patience lasts."""

MIN_DEALS, MAX_DEALS = 4, 200
DEALS_AT_FIRST, DEALS_A_DRAW = 2, 8
"""So many deals are made in the same memory: until SOME_DRAWS say that its place does not show, and later.

Where it shows, and at the very first, memory is taken anew for each deal of several rounds.
"""

WHO_DRAWS = ((True, True), (True, False), (True, True), (False, True))
"""Which of the two sides take their memory anew, in turns: two places that alternate meet in all ways."""

SOME_DRAWS, MANY_DRAWS = 6, 16
"""So often memory is taken anew to see whether its place shows; if it does, so that both meet the better."""

FEW_ROUNDS, MANY_ROUNDS = 2, 6
"""So often the sides take turns within a deal: seldom at first, more often once noise has shown."""

LOOKED_AT = 0.5
"""With this chance outputs of a round are looked at, once every distribution and the first rounds were."""

DOUBTED_TIMES = 3
"""So many times the rounds are made where the oracle's clock does not bear out the candidate's: by chance?

These decide, once: to stop as soon as both agree would favour who claims too little.
"""

MUCH_FASTER = 2
"""A candidate so many times as fast as the reference gets more calls a deal: few would say little of it."""

OUT_OF_TIME_S = 5.0
BENT_CALLS, FEW_CALLS = 2, 4
BENT_OFTEN, BENT_SELDOM = 2 / 3, 1 / 3
"""So many timed inputs a round are not upstream's; of few one; of one often, or seldom if rounds are many."""

_secret = random.SystemRandom()


class Deck:
    """The distributions of inputs; those on which no output was compared yet are dealt before the others."""

    def __init__(self, names: Sequence[str]) -> None:
        self._bent = [name for name in names if name != "upstream"]
        self._hand: list[str] = []
        self.unseen = set(names)

    @property
    def is_empty(self) -> bool:
        """Whether there are no distributions but the usual, or none any more."""
        return not (self._bent or self.unseen)

    def any(self) -> str:
        """Name one that is not upstream's, whichever."""
        return _secret.choice(self._bent)

    def deal(self) -> str:
        """Name one that is to be looked at, and not the same again before the others."""
        if not self._hand:
            names = sorted(self.unseen) or self._bent
            self._hand = _secret.sample(names, len(names))
        return self._hand.pop()

    def see(self, name: str) -> None:
        """Note that an output on this distribution was compared."""
        self.unseen.discard(name)

    def drop(self, name: str) -> None:
        """Deal a distribution no more that says nothing."""
        self.unseen.discard(name)
        self._bent = [other for other in self._bent if other != name]
        self._hand = [other for other in self._hand if other != name]


def measure(
    bench: Bench, side: Side, left_s: Callable[[], float], verify: timed_outputs.Verifier, deck: Deck
) -> Measurement:
    """Deal inputs until the interval is tight or the time is spent; `verify` raises on a wrong output."""
    started = time.monotonic()
    found = _begin(bench, bench.calls)
    sides = _secret.sample((bench.reference, side), 2)
    while found.deals < MAX_DEALS:
        if _is_to_draw(bench, found):
            for each in itertools.compress(sides, WHO_DRAWS[found.draws % len(WHO_DRAWS)]):
                with side.process.paused() if each.trusted else nullcontext():
                    draw_memory(bench, each, bench.calls if each.trusted else found.calls, left_s())
            found.draws += 1
        found.rounds += _deal(bench, side, left_s, verify, found, deck)
        found.deals += 1
        if found.deals == 1:  # the more calls, the better it shows how many there should be
            calls = _calls_for(bench, found)
            if calls >= MUCH_FASTER * found.calls:
                found = _begin_again(bench, side, calls, left_s())
        if _is_enough(bench, found, deck, time.monotonic() - started, left_s()):
            break
    suspicions.charge_deferred(found, bench.device)
    suspicions.judge_single(bench, side, left_s, found)
    suspicions.judge_clocks(bench, found)
    return found


def _begin(bench: Bench, calls: int) -> Measurement:
    _refill(bench, [bench.usual] * calls)
    return Measurement(calls=calls, believes="clocks" in bench.settings.switched_off)


def _begin_again(bench: Bench, side: Side, calls: int, left_s: float) -> Measurement:
    """Begin with more calls a deal, for which inputs may have to lie elsewhere."""
    with side.process.paused():
        is_moved = bench.hold(calls)
        found = _begin(bench, calls)
        if is_moved:
            bench.writing_bias_ms = writing_bias(bench, calls)
    if is_moved:
        bench.show_inputs(side, left_s)
    return found


def _is_to_draw(bench: Bench, found: Measurement) -> bool:
    """Whether memory is taken anew before the next deal; on a CPU both sides keep what they have."""
    if found.deals == 0 or bench.device != "cuda":
        return found.deals == 0
    is_open = found.deals < MIN_DEALS or (found.draws < MANY_DRAWS and placement.shows(found.rounds))
    if is_open:
        return found.calls > 1 or found.deals % DEALS_AT_FIRST == 0
    return found.deals % (DEALS_AT_FIRST if found.draws < SOME_DRAWS else DEALS_A_DRAW) == 0


def _calls_for(bench: Bench, found: Measurement) -> int:
    """How many calls a deal the candidate should have, by the slower of its own clock and the oracle's."""
    candidate_ms = max(found.claimed_ms, found.oracle_ms)
    if candidate_ms * MUCH_FASTER > found.rounds[0].reference_ms:
        return found.calls
    return bench.calls_for(candidate_ms)


def _is_enough(bench: Bench, found: Measurement, deck: Deck, spent_s: float, left_s: float) -> bool:
    budget_s = BUDGET_S[bench.device]
    if found.deals < MIN_DEALS or len(found.rounds) < pairing.MIN_ROUNDS:
        return False
    if left_s < OUT_OF_TIME_S or spent_s > PATIENCE_S[bench.device]:
        return True
    says_nothing = min(r.candidate_ms for r in found.rounds) <= 0
    half_width = LOOSE_HALF_WIDTH if spent_s > budget_s else HALF_WIDTH
    found.is_tight = not says_nothing and pairing.is_tight(found.counted, half_width)
    if (deck.unseen and spent_s < budget_s) or _place_is_open(found.rounds, found.draws):
        return False
    if says_nothing:
        return spent_s > budget_s
    if not found.is_tight:
        return False
    if not found.rounds_wanted and found.is_stretched:
        found.rounds_wanted = DOUBTED_TIMES * len(found.rounds)
    return len(found.rounds) >= found.rounds_wanted


def _place_is_open(rounds: Sequence[pairing.Round], draws: int) -> bool:
    """Whether the place of memory decides, and more must be seen of it."""
    if draws < MANY_DRAWS and placement.shows(rounds):
        return True
    return placement.lack_looks(placement.well_placed(rounds), rounds)


def _deal(
    bench: Bench,
    side: Side,
    left_s: Callable[[], float],
    verify: timed_outputs.Verifier,
    found: Measurement,
    deck: Deck,
) -> list[pairing.Round]:
    """Fresh inputs for some rounds: on a part of them first one side, then the other; the next the other way.

    After which rounds outputs are looked at a coin says for each, so that no call is safe to leave out and no
    look tells of another; after all as long as a distribution was not seen, or too few looks say little.
    """
    seed = secrets.randbits(60)
    count = FEW_ROUNDS if found.deals < MIN_DEALS else max(FEW_ROUNDS, min(MANY_ROUNDS, bench.calls))
    parts = pairing.parts(found.calls, bench.calls, count, _secret)
    if found.deals % 2 == 0:
        _secret.shuffle(found.order)
    pair = [bench.reference if is_trusted else side for is_trusted in found.order]
    found.order.reverse()
    looks = sum(r.look is not None for r in placement.well_placed(found.rounds)) if found.rounds else 0
    sees_all = bool(deck.unseen) or len(parts) == 1 or looks < pairing.MIN_ROUNDS
    looked_at = [sees_all or _secret.random() < LOOKED_AT for _ in parts]
    drawn = _refill(bench, _distributions(bench, deck, parts))
    rounds = []
    for part, is_looked_at in zip(parts, looked_at, strict=True):
        kept: list[timed_outputs.Kept] = []
        spent = {}
        for each in pair:
            order = part.reference if each.trusted else part.candidate
            if not found.is_tight:
                renew_core(bench, side)
            with side.process.paused() if each.trusted else nullcontext():
                spent[each.trusted] = run_timed(bench, each, order, seed, left_s(), written=part.candidate)
            if not each.trusted:
                claimed_ms = spent[False][1] / len(part.candidate)
                chosen = timed_outputs.choose(bench, part, drawn, claimed_ms) if is_looked_at else []
                kept = timed_outputs.collect(bench, side, part, chosen, left_s)
        look = None
        if kept:
            with side.process.paused():
                look = timed_outputs.verify(bench, part, drawn, kept, verify)
        rounds.append(
            pairing.round_of(
                part,
                spent[True],
                spent[False],
                bias_ms=bench.writing_bias_ms,
                reference_first=pair[0].trusted,
                draw=found.draws,
                look=look,
            )
        )
        pair.reverse()
    return rounds


def _refill(bench: Bench, distributions: Sequence[str]) -> list[tuple[int, str]]:
    """Fresh inputs for every set, not yet shown to anybody; give each one's seed and distribution."""
    drawn = [(secrets.randbits(60), distribution) for distribution in distributions]
    for at, (seed, distribution) in enumerate(drawn):
        bench.put(at, partial(bench.source.draw, seed, distribution), secretly=True)
    for at in range(len(drawn), bench.sets):
        bench.drawn[at] = []  # of a kernel that made more calls
    return drawn


def _distributions(bench: Bench, deck: Deck, parts: Sequence[pairing.Part]) -> list[str]:
    """A distribution for every call: upstream's, but for a few in each part.

    So looking like upstream, or knowing that time is taken, earns nothing, and no part tells whether it will
    be looked at.
    """
    chance = BENT_OFTEN if len(parts) <= FEW_ROUNDS else BENT_SELDOM
    names = [bench.usual] * sum(len(part.candidate) for part in parts)
    if deck.is_empty:
        return names
    for part in parts:
        if len(part.candidate) == 1 and _secret.random() > chance:
            continue
        for at in _secret.sample(part.candidate, 1 if len(part.candidate) < FEW_CALLS else BENT_CALLS):
            names[at] = deck.deal() if deck.unseen else deck.any()
    return names
