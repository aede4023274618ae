"""The paired measurement: fresh inputs, a batch of each side, and a look at what the timed calls gave.

Both sides say what their own clock saw; the oracle's clock runs beside. The candidate's word counts as long
as the oracle's clock bears it out, and the oracle's time counts where it does not. Work put off until an
output is asked for is charged where it shows.
"""

from __future__ import annotations

import logging
import math
import random
import secrets
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from kernelbench import pairing
from kernelbench.bench import Bench
from kernelbench.frames import Op
from kernelbench.sides import REFERENCE_TIMEOUT_S, Side

HALF_WIDTH = 0.005
"""Timing stops when the 95 % interval of the speedup is within this, relative, to either side."""

BUDGET_S = {"cuda": 0.75, "cpu": 2.0}
PATIENCE_S = {"cuda": 2.5, "cpu": 2.0}
LOOSE_HALF_WIDTH = 0.01
"""After the budget this is good enough; what is looser still may take as long as patience lasts."""

MAX_ROUNDS = 60
ROUNDS_A_DRAW = {"cuda": 3, "cpu": MAX_ROUNDS}
"""After so many rounds both sides take their memory anew; on a CPU they keep what they have."""

OUT_OF_TIME_S = 5.0
VERIFIED_SHARE = 0.2
MIN_VERIFIED, MAX_VERIFIED = 4, 8

BORNE_OUT_SHARE, BORNE_OUT_MS = 0.01, 0.1
"""Within this share, or these milliseconds a batch, the oracle's clock bears the candidate's out."""

CLOCK_SHARE = {"cuda": 0.05, "cpu": 0.3}
CLOCK_MS = {"cuda": 0.02, "cpu": 1.0}
"""How much less than the oracle's a claim may be before a person should look; a CPU is shared with others."""

SLOWED_SHARE = 0.25
DEFERRED_MS, DEFERRED_SHARE = 0.05, 0.03
SNAPSHOT_BYTES = 4 << 30
BENT_SETS, FEW_SETS = 2, 8
"""So many timed inputs a round are not upstream's; with few sets one, and with one in two rounds of three."""


class InputsChanged(Exception):
    """A timed batch left its inputs other than it found them."""


Verifier = Callable[[list[torch.Tensor], list[torch.Tensor], dict[str, Any]], None]

_secret = random.SystemRandom()
_log = logging.getLogger(__name__)


class Deck:
    """The other distributions in secret order: every one is dealt before any comes again."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._left: list[str] = []
        self.unseen = set(names)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to deal."""
        return not self._names

    def deal(self) -> str:
        """Give the next one."""
        if not self._left:
            self._left = _secret.sample(self._names, len(self._names))
        name = self._left.pop()
        self.unseen.discard(name)
        return name


@dataclass
class Measurement:
    """What the rounds gave. `suspicion` names a disagreement that a person should look at.

    `believes`: the candidate's word counts whatever the oracle's clock says, for a test.
    """

    calls: int
    deck: Deck
    believes: bool = False
    rounds: list[pairing.Round] = field(default_factory=list)
    lateness_ms: list[float] = field(default_factory=list)
    deferred_ms: float = 0.0
    single_ms: float = 0.0
    labels: list[str] = field(default_factory=list)
    suspicion: tuple[str, str] | None = None

    @property
    def claimed_ms(self) -> float:
        """The candidate's milliseconds a call by its own clock."""
        return statistics.median(r.candidate_ms for r in self.rounds)

    @property
    def oracle_ms(self) -> float:
        """The candidate's milliseconds a call by the oracle's clock."""
        return max(pairing.oracle_ms(self.rounds), 1e-6)

    def fields(self) -> dict[str, Any]:
        """The row's fields."""
        factor = self._correction()
        counted = [
            replace(
                r, candidate_ms=(r.candidate_ms * factor if factor else self.oracle_ms) + self.deferred_ms
            )
            for r in self.rounds
        ]
        ratio, interval = pairing.speedup(counted)
        return {
            "runtime_ms": pairing.timing([r.candidate_ms for r in counted]),
            "reference_ms": pairing.timing([r.reference_ms for r in counted]),
            "speedup": ratio,
            "speedup_ci95": interval,
            "second_clock_ms": self.oracle_ms,
            "clock_disagreement": abs(self.claimed_ms - self.oracle_ms) / self.oracle_ms,
        }

    def evidence(self) -> dict[str, Any]:
        """The numbers behind a suspicion."""
        return {
            "oracle_ms": self.oracle_ms,
            "claimed_ms": self.claimed_ms,
            "deferred_ms": self.deferred_ms,
            "single_call_ms": self.single_ms,
            "calls_a_batch": self.calls,
        }

    def _correction(self) -> float:
        """By how much to stretch the candidate's times; 0 where its clock said nothing at all."""
        if min(r.candidate_ms for r in self.rounds) <= 0:
            return 0.0
        if self.believes:
            return 1.0
        allowed = self.claimed_ms * (1 + BORNE_OUT_SHARE) + BORNE_OUT_MS / self.calls
        if self.oracle_ms <= allowed:
            return 1.0
        return self.oracle_ms / self.claimed_ms


def measure(bench: Bench, side: Side, left_s: Callable[[], float], verify: Verifier) -> Measurement:
    """Run rounds until the interval is tight or the time is spent; `verify` raises on a wrong output."""
    believes = "clocks" in bench.settings.switched_off
    found = Measurement(calls=bench.sets, deck=_deck(bench), believes=believes)
    _refill(bench, [_usual(bench)] * bench.sets)
    started = time.monotonic()
    while len(found.rounds) < MAX_ROUNDS:
        if len(found.rounds) % ROUNDS_A_DRAW[bench.device] == 0:
            _draw_memory(bench, side, left_s)
        found.rounds.append(_round(bench, side, left_s, verify, found))
        if _is_enough(bench, found, time.monotonic() - started, left_s()):
            break
    _charge_deferred(found)
    _judge_reference(bench, side, found)
    _judge_single(bench, side, left_s, found)
    _judge_clocks(bench, found)
    return found


def _draw_memory(bench: Bench, side: Side, left_s: Callable[[], float]) -> None:
    """Let both sides take their memory anew, and warm them up.

    Where large blocks happen to lie makes some kernels up to 30 % slower, for as long as they lie there.
    """
    for each in (bench.reference, side):
        bench.run_batch(each, [], 0, left_s(), fresh=True)
        for _ in range(2):
            bench.run_batch(each, list(range(bench.sets)), 0, left_s())


def _is_enough(bench: Bench, found: Measurement, spent_s: float, left_s: float) -> bool:
    budget_s, patience_s = BUDGET_S[bench.device], PATIENCE_S[bench.device]
    if len(found.rounds) < pairing.MIN_ROUNDS:
        return False
    if left_s < OUT_OF_TIME_S or spent_s > patience_s:
        return True
    if found.deck.unseen and spent_s < budget_s:
        return False
    if min(r.candidate_ms for r in found.rounds) <= 0:
        return spent_s > budget_s
    return pairing.is_tight(found.rounds, LOOSE_HALF_WIDTH if spent_s > budget_s else HALF_WIDTH)


def _round(
    bench: Bench, side: Side, left_s: Callable[[], float], verify: Verifier, found: Measurement
) -> pairing.Round:
    """Both sides on the same inputs: first one, then the other, and for the second half the other way round.

    After which half outputs are looked at is secret, so that no call is safe to leave out.
    """
    seed = secrets.randbits(60)
    order = list(range(bench.sets))
    _secret.shuffle(order)
    half = len(order) // 2
    halves = [order[:half], order[half:]] if half else [order]
    pair = [bench.reference, side]
    _secret.shuffle(pair)
    looked_at = _secret.randrange(len(halves))
    drawn = _refill(bench, _distributions(bench, found.deck, halves[looked_at]))
    spent = {True: [0.0, 0.0], False: [0.0, 0.0]}
    for number, part in enumerate(halves):
        kept: list[_Kept] = []
        for each in pair:
            with side.process.paused() if each.trusted else nullcontext():
                wall, claimed = _run(bench, each, part, seed, left_s())
            spent[each.trusted][0] += wall
            spent[each.trusted][1] += claimed
            if not each.trusted:
                chosen = _choose(bench, part, drawn) if number == looked_at else []
                kept = _collect(bench, side, part, chosen, left_s)
        pair.reverse()
        found.lateness_ms += _verify(bench, part, drawn, kept, verify)
    calls = len(order)
    return pairing.Round(
        reference_ms=spent[True][1] / calls,
        candidate_ms=spent[False][1] / calls,
        reference_wall_ms=spent[True][0] / calls,
        candidate_wall_ms=spent[False][0] / calls,
    )


def _run(bench: Bench, side: Side, order: list[int], seed: int, left_s: float) -> tuple[float, float]:
    """Milliseconds of a batch by the oracle's clock and by the side's own.

    The empty batch before brings the side's context back onto the device, which takes a while of its own.
    """
    bench.run_batch(side, [], seed, left_s)
    wall_ms, claimed_ms = bench.run_batch(side, order, seed, left_s)
    name = "reference" if side.trusted else "candidate"
    _log.debug("%s, %d calls: %.5f ms by its clock, %.5f by ours", name, len(order), claimed_ms, wall_ms)
    return wall_ms, claimed_ms


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """One output of a timed batch as it was right after the batch, and how long its delivery took."""

    index: int
    outputs: list[torch.Tensor]
    delivery_ms: float


def _choose(bench: Bench, order: list[int], drawn: list[tuple[int, str]]) -> list[int]:
    """Which calls of a finished batch to look at: those with unusual inputs, and some others."""
    if "timed_outputs" in bench.settings.switched_off:
        return []
    affordable = max(1, SNAPSHOT_BYTES // max(bench.output_bytes, 1))
    share = max(MIN_VERIFIED, math.ceil(VERIFIED_SHARE * len(order)))
    count = min(MAX_VERIFIED, share, len(order), affordable)
    chosen = _secret.sample(range(len(order)), count)
    bent = [index for index, at in enumerate(order) if drawn[at][1] != _usual(bench)]
    return (bent + [index for index in chosen if index not in bent])[: max(count, 1)]


def _collect(
    bench: Bench, side: Side, order: list[int], chosen: list[int], left_s: Callable[[], float]
) -> list[_Kept]:
    """Take outputs before anything else runs, and the first at once: what still runs then is late.

    The inputs go after that, so that nothing put off until it is asked for can be done any more.
    """
    kept: list[_Kept] = []
    for index in chosen:
        took = _deliver(bench, side, index, left_s())
        outputs = [tensor.clone() for tensor in bench.read_outputs(side)]
        bench.settle()
        if not kept:
            if not bench.mutates and bench.inputs_changed(side, order[_secret.choice(chosen)]):
                raise InputsChanged
            bench.scramble(side)
        kept.append(_Kept(index=index, outputs=outputs, delivery_ms=took))
    return kept


def _verify(
    bench: Bench, order: list[int], drawn: list[tuple[int, str]], kept: list[_Kept], verify: Verifier
) -> list[float]:
    """Compare what was kept with the reference's; give the milliseconds a call that were put off.

    Work put off is seen either in each delivery (done when asked for) or in the first one (not yet done).
    """
    late: list[float] = []
    for each in kept:
        ours = _deliver(bench, bench.reference, each.index, REFERENCE_TIMEOUT_S)
        if not late:
            bench.scramble(bench.reference)  # so that both sides deliver in the same circumstances
        late.append(each.delivery_ms - ours)
        seed, distribution = drawn[order[each.index]]
        facts = {"distribution": distribution, "seed": seed, "call": each.index}
        floors = len(bench.floors)
        verify(bench.read_outputs(bench.reference), each.outputs, facts)
        if len(bench.floors) != floors:
            break  # the reference ran to measure its rounding: its outputs of this batch are gone
    return [max(statistics.median(late), sum(late) / len(order))] if late else []


def _deliver(bench: Bench, side: Side, index: int, left_s: float) -> float:
    bench.settle()
    start = time.perf_counter()
    side.ask(Op.DELIVER, left_s, index=index, offsets=bench.output_offsets)
    return (time.perf_counter() - start) * 1e3


def _refill(bench: Bench, distributions: Sequence[str]) -> list[tuple[int, str]]:
    """Fresh inputs for every set, not yet shown to anybody; give each one's seed and distribution."""
    drawn = [(secrets.randbits(60), distribution) for distribution in distributions]
    for at, (seed, distribution) in enumerate(drawn):
        bench.put(at, partial(bench.source.draw, seed, distribution), secretly=True)
    return drawn


def _usual(bench: Bench) -> str:
    """What timed inputs are like: upstream's; under KernelBench's tolerance with its weights."""
    return "plain" if bench.variant == "plain" else "upstream"


def _deck(bench: Bench) -> Deck:
    usual = bench.skipped | {"plain", "upstream"}
    names = [] if "panel" in bench.settings.switched_off else bench.source.distributions()
    return Deck([name for name in names if name not in usual])


def _distributions(bench: Bench, deck: Deck, looked_at: Sequence[int]) -> list[str]:
    """A distribution for every set: upstream's, but for a few that will be looked at.

    So looking like upstream, or knowing that time is taken, earns nothing.
    """
    usual = [_usual(bench)] * bench.sets
    if deck.is_empty or (bench.sets == 1 and _secret.random() < 1 / 3):
        return usual
    for at in _secret.sample(looked_at, 1 if bench.sets < FEW_SETS else BENT_SETS):
        usual[at] = deck.deal()
    return usual


def _charge_deferred(found: Measurement) -> None:
    """Charge every call what is done only when an output is asked for, where lateness is beyond chance."""
    if len(found.lateness_ms) < pairing.MIN_ROUNDS:
        return
    low, _ = pairing.median_interval(found.lateness_ms)
    if low > max(DEFERRED_MS, DEFERRED_SHARE * found.claimed_ms):
        found.deferred_ms = statistics.median(found.lateness_ms)
        found.labels.append("deferred-work")


def _judge_reference(bench: Bench, side: Side, found: Measurement) -> None:
    """The reference must not be slower beside the candidate than alone: somebody else would be at work.

    What looks slow is measured again with the candidate stopped, since the machine itself may have slowed.
    """
    if bench.device == "cpu":
        return
    beside = statistics.median(r.reference_ms for r in found.rounds)
    allowed = (1 + SLOWED_SHARE) * bench.alone_ms + CLOCK_MS[bench.device]
    if beside <= allowed:
        return
    with side.process.paused():
        alone = bench.measure_alone()
    if beside > (1 + SLOWED_SHARE) * alone + CLOCK_MS[bench.device]:
        message = f"the reference takes {alone:.4f} ms alone and {beside:.4f} ms beside the candidate"
        found.suspicion = ("ReferenceSlowed", message)


def _judge_single(bench: Bench, side: Side, left_s: Callable[[], float], found: Measurement) -> None:
    """A call alone must not cost far more than a call among many: else one call did the work of all."""
    if bench.sets < 4:
        return

    def alone(each: Side) -> float:
        return min(_run(bench, each, [_secret.randrange(bench.sets)], 0, left_s())[0] for _ in range(3))

    singles = {each.trusted: alone(each) for each in (bench.reference, side)}
    found.single_ms = singles[False]
    honest = max(3 * singles[True], 3 * found.oracle_ms) + 0.2
    if found.single_ms > honest and found.single_ms > 0.5 * found.oracle_ms * bench.sets:
        message = f"a call alone takes {found.single_ms:.4f} ms, a call in a batch {found.oracle_ms:.4f} ms"
        found.suspicion = ("WorkSharedBetweenCalls", message)


def _judge_clocks(bench: Bench, found: Measurement) -> None:
    oracle, claim = found.oracle_ms, found.claimed_ms
    if oracle - claim > max(CLOCK_SHARE[bench.device] * oracle, CLOCK_MS[bench.device]):
        message = f"the oracle's clock says {oracle:.5f} ms a call, the process says {claim:.5f} ms"
        found.suspicion = ("ClocksDisagree", message)
