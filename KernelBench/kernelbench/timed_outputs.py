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

AT_ONCE_MS, AT_ONCE_SHARE = 0.2, 0.03
"""A delivery hides about so much work put off; as many come at once as make it such a share of all."""

SNAPSHOT_BYTES = 4 << 30

Verifier = Callable[[list[torch.Tensor], list[torch.Tensor], dict[str, Any]], None]

_secret = random.SystemRandom()


class InputsChanged(Exception):
    """A timed batch left its inputs other than it found them."""


class WorkLeft(Exception):
    """A candidate's work still ran on the device after its outputs were delivered and its process stopped."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Outputs of a timed batch as they were right after: of which input sets, and how long delivery took."""

    sets: list[int]
    outputs: list[list[torch.Tensor]]
    delivery_ms: float


def choose(bench: Bench, part: Part, drawn: list[tuple[int, str]], claimed_ms: float) -> list[list[int]]:
    """Which sets of a finished batch to look at, by deliveries: unusual inputs, and usual ones beside them.

    Any call of the candidate may be chosen, whether the reference has run it or not; first come those it has,
    since it lets go of them when it runs again. Of usual ones so many are delivered at once that work put off
    shows, by what a call takes, it says: an output alone hides AT_ONCE_MS.
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
    of_rest = count - len(chosen)
    if of_rest:
        wanted = math.ceil(AT_ONCE_MS / max(AT_ONCE_SHARE * claimed_ms, 1e-6))
        of_rest = max(of_rest, min(wanted, bench.slots, max(bench.calls, MIN_VERIFIED)))
    usual = sorted(rest, key=lambda at: at not in part.reference)[:of_rest]
    deliveries = [[at] for at in chosen]
    deliveries += [usual[first : first + bench.slots] for first in range(0, len(usual), bench.slots)]
    return sorted(deliveries, key=lambda sets: not set(sets) <= set(part.reference))


def collect(
    bench: Bench, side: Side, part: Part, chosen: list[list[int]], left_s: Callable[[], float]
) -> list[Kept]:
    """Take outputs before anything else runs, and the first at once: what still runs then is late.

    The inputs go after that, so that nothing put off until it is asked for can be done any more.
    """
    kept: list[Kept] = []
    for sets in chosen:
        took = deliver(bench, side, [part.candidate.index(at) for at in sets], left_s())
        outputs = bench.keep_outputs(side, len(sets))
        if not kept:
            looked_at = _secret.choice([at for some in chosen for at in some])
            if not bench.mutates and bench.inputs_changed(side, looked_at):
                raise InputsChanged
            bench.scramble(side)
        kept.append(Kept(sets=sets, outputs=outputs, delivery_ms=took))
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
        if not set(each.sets) <= set(ran):
            if bench.is_random:
                break
            ran = [*each.sets, *(at for one in left for at in one.sets)]
            run_batch(bench, bench.reference, ran, 0, REFERENCE_TIMEOUT_S)
        spent_ms = deliver_undisturbed(bench, [ran.index(at) for at in each.sets])
        if spent_ms is None:
            raise WorkLeft
        if not look.reference_ms:
            bench.scramble(bench.reference)
        look.reference_ms.append(spent_ms)
        look.candidate_ms.append(each.delivery_ms)
        look.counts.append(len(each.sets))
        look.are_usual.append(drawn[each.sets[0]][1] == bench.usual)
        times_weighed = bench.times_weighed
        if len(each.sets) > 1:
            expected = bench.keep_outputs(bench.reference, len(each.sets))
        else:
            expected = [bench.read_outputs(bench.reference)]
        for at, right, found in zip(each.sets, expected, each.outputs, strict=True):
            seed, distribution = drawn[at]
            facts = {"distribution": distribution, "seed": seed, "call": part.candidate.index(at)}
            check(right, found, facts | bench.weight_facts())
        if bench.times_weighed != times_weighed:
            # The reference ran meanwhile, on inputs in the first set's place.
            ran = []
            bench.put(0, partial(bench.source.draw, *drawn[0]), secretly=True)
    return look if look.reference_ms else None
