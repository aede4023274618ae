"""A look at what timed calls gave: taken right after the batch, compared later, with an eye on work put off.

The candidate cannot know after which rounds, nor which of its calls, will be looked at.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from kernelbench.batches import deliver, deliver_undisturbed, run_batch
from kernelbench.bench import Bench
from kernelbench.pairing import Look, Part
from kernelbench.sides import REFERENCE_TIMEOUT_S, Side

VERIFIED_SHARE = 0.2
LEAST_VERIFIED, MIN_VERIFIED, MAX_VERIFIED = 2, 4, 8

SNAPSHOT_BYTES = 4 << 30

Verifier = Callable[[list[torch.Tensor], list[torch.Tensor], dict[str, Any]], None]

_secret = random.SystemRandom()


class InputsChanged(Exception):
    """A timed batch left its inputs other than it found them."""


class WorkLeft(Exception):
    """A candidate's work still ran on the device after its outputs were delivered and its process stopped."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """One output of a timed batch as it was right after: of which input set, and how long delivery took."""

    at: int
    outputs: list[torch.Tensor]
    delivery_ms: float


def choose(bench: Bench, part: Part, drawn: list[tuple[int, str]]) -> list[int]:
    """Which sets of a finished batch to look at: unusual inputs, and usual ones beside them if there are any.

    Any call of the candidate may be chosen, whether the reference has run it or not; first come those it has,
    since it lets go of them when it runs again.
    """
    if "timed_outputs" in bench.settings.switched_off:
        return []
    affordable = max(1, SNAPSHOT_BYTES // max(bench.output_bytes, 1))
    share = max(MIN_VERIFIED, math.ceil(VERIFIED_SHARE * len(part.reference)))
    if len(part.reference) < len(part.candidate):
        share = LEAST_VERIFIED  # each may cost a call of the reference
    count = min(MAX_VERIFIED, share, len(part.candidate), affordable)
    order = _secret.sample(part.candidate, len(part.candidate))
    bent = [at for at in order if drawn[at][1] != bench.usual]
    rest = [at for at in order if drawn[at][1] == bench.usual]
    of_bent = max(1, count - 1) if rest else count
    if rest and count == 1:
        of_bent = _secret.randrange(2)
    chosen = bent[:of_bent]
    return sorted(chosen + rest[: count - len(chosen)], key=lambda at: at not in part.reference)


def collect(
    bench: Bench, side: Side, part: Part, chosen: list[int], left_s: Callable[[], float]
) -> list[Kept]:
    """Take outputs before anything else runs, and the first at once: what still runs then is late.

    The inputs go after that, so that nothing put off until it is asked for can be done any more.
    """
    kept: list[Kept] = []
    for at in chosen:
        took = deliver(bench, side, part.candidate.index(at), left_s())
        outputs = bench.read_outputs(side, kept=True)
        bench.settle()
        if not kept:
            if not bench.mutates and bench.inputs_changed(side, _secret.choice(chosen)):
                raise InputsChanged
            bench.scramble(side)
        kept.append(Kept(at=at, outputs=outputs, delivery_ms=took))
    return kept


def verify(
    bench: Bench, part: Part, drawn: list[tuple[int, str]], kept: list[Kept], check: Verifier
) -> Look | None:
    """Compare what was kept with the reference's; give what both sides took to deliver it.

    What the reference has not run it runs in a batch too, so that both sides deliver out of one, and it
    delivers when the device is quiet: what a candidate leaves there would hide what it puts off.
    """
    left = list(kept)
    ran = part.reference
    look = Look()
    while left:
        each = left.pop(0)
        if each.at not in ran:
            if bench.is_random:
                break
            ran = [each.at, *(one.at for one in left)]
            run_batch(bench, bench.reference, ran, 0, REFERENCE_TIMEOUT_S)
        spent_ms = deliver_undisturbed(bench, ran.index(each.at))
        if spent_ms is None:
            raise WorkLeft
        if not look.reference_ms:
            bench.scramble(bench.reference)
        seed, distribution = drawn[each.at]
        look.reference_ms.append(spent_ms)
        look.candidate_ms.append(each.delivery_ms)
        look.are_usual.append(distribution == bench.usual)
        facts = {"distribution": distribution, "seed": seed, "call": part.candidate.index(each.at)}
        facts |= bench.weight_facts()
        times_weighed = bench.times_weighed
        check(bench.read_outputs(bench.reference), each.outputs, facts)
        if bench.times_weighed != times_weighed:
            # The reference ran meanwhile, on inputs in the first set's place.
            ran = []
            bench.put(0, partial(bench.source.draw, *drawn[0]), secretly=True)
    return look if look.reference_ms else None
