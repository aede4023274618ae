"""A look at what timed calls gave: taken right after the batch, compared later, with an eye on work put off.

The candidate cannot know after which rounds, nor which of its calls, will be looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from kernel_evaluator import secret_draws
from kernel_evaluator.stand.batches import deliver, deliver_undisturbed, run_batch
from kernel_evaluator.stand.output_slots import COPIED_BYTES
from kernel_evaluator.stand.sides import REFERENCE_TIMEOUT_S, Side
from kernel_evaluator.stand.stand import Stand
from kernel_evaluator.timing.pairing import Look, Part, noted

VERIFIED_SHARE = 0.2
LEAST_VERIFIED, MIN_VERIFIED, MAX_VERIFIED = 2, 4, 8

AT_ONCE_MS, AT_ONCE_SHARE = 0.2, 0.03
"""A delivery hides about so much work put off; as many come at once as make it such a share of all."""

Verifier = Callable[[list[torch.Tensor], list[torch.Tensor], dict[str, Any]], None]


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


def choose(
    stand: Stand, part: Part, drawn: list[tuple[int, str]], claimed_ms: float, unseen: Collection[str]
) -> list[list[int]]:
    """Which sets of a finished batch to look at, by deliveries: one alone, and then as many as fit at once.

    Any call of the candidate may be chosen, whether the reference has run it or not; first come those it has,
    since it lets go of them when it runs again. So many are delivered at once that work put off shows, by
    what a call takes, it says: an output alone hides AT_ONCE_MS. What `unseen` holds comes before the rest.
    """
    if "timed_outputs" in stand.settings.switched_off:
        return []
    affordable = max(1, COPIED_BYTES // max(stand.outputs.nbytes, 1))
    share = max(MIN_VERIFIED, math.ceil(VERIFIED_SHARE * len(part.reference)))
    if len(part.reference) < len(part.candidate):
        share = LEAST_VERIFIED  # each may cost a call of the reference
    count = min(MAX_VERIFIED, share, len(part.candidate), affordable)
    order = secret_draws.in_any_order(part.candidate)
    wanted = math.ceil(AT_ONCE_MS / max(AT_ONCE_SHARE * claimed_ms, 1e-6))
    count = max(count, min(1 + wanted, stand.outputs.count, max(stand.calls, MIN_VERIFIED)))
    ran = set(part.reference)
    chosen = sorted(order, key=lambda at: (drawn[at][1] not in unseen, at not in ran))[:count]
    chosen.sort(key=lambda at: at not in ran)
    at_once = stand.outputs.count
    deliveries = [chosen[:1], *(chosen[at : at + at_once] for at in range(1, len(chosen), at_once))]
    return sorted(deliveries, key=lambda sets: not set(sets) <= ran)


def collect(
    stand: Stand, side: Side, part: Part, chosen: list[list[int]], left_s: Callable[[], float]
) -> list[Kept]:
    """Take outputs before anything else runs, and the first at once: what still runs then is late.

    The inputs go after that, so that nothing put off until it is asked for can be done any more.
    """
    kept: list[Kept] = []
    for sets in chosen:
        took = deliver(stand, side, [part.candidate.index(at) for at in sets], left_s())
        outputs = stand.outputs.keep(side, len(sets))
        if not kept:
            looked_at = secret_draws.one([at for some in chosen for at in some])
            if not stand.manners.mutates and stand.inputs.changed(side, looked_at):
                raise InputsChanged
            stand.scramble(side)
        kept.append(Kept(sets=sets, outputs=outputs, delivery_ms=took))
    stand.spare(side, left_s())
    return kept


def verify(
    stand: Stand, part: Part, drawn: list[tuple[int, str]], kept: list[Kept], check: Verifier
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
            if stand.manners.is_random:
                break
            ran = [*each.sets, *(at for one in left for at in one.sets)]
            run_batch(stand, stand.reference, ran, 0, REFERENCE_TIMEOUT_S)
        spent_ms = deliver_undisturbed(stand, [ran.index(at) for at in each.sets])
        if spent_ms is None:
            raise WorkLeft
        if not look.reference_ms:
            stand.scramble(stand.reference)
        look.reference_ms.append(noted(spent_ms))
        look.candidate_ms.append(noted(each.delivery_ms))
        look.counts.append(len(each.sets))
        times_weighed = stand.rounding.times_weighed
        if len(each.sets) > 1:
            expected = stand.outputs.keep(stand.reference, len(each.sets))
        else:
            expected = [stand.outputs.read(stand.reference)]
        for at, right, found in zip(each.sets, expected, each.outputs, strict=True):
            seed, distribution = drawn[at]
            facts = {"distribution": distribution, "seed": seed, "call": part.candidate.index(at)}
            check(right, found, facts | stand.weights.facts())
        if stand.rounding.times_weighed != times_weighed:
            # The reference ran meanwhile, on inputs in the first set's place.
            ran = []
            stand.inputs.put(0, partial(stand.source.draw, *drawn[0]), secretly=True)
    return look if look.reference_ms else None
