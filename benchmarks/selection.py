"""Look for a kernel that gains by choosing when to be fast: the real rules of timing, on simulated rounds.

    python benchmarks/selection.py [--evaluations 40] [--write]

Placing, deals, looks, stopping, charges and suspicions are the evaluator's own (`timing.deals.measure`).
Clocks, devices and kernels are simulated. A policy says how fast each call is, by the placing of memory, its
place in a batch, the kind of its input, the length of the batch, the time, or by chance. Its honest median is
that of all rounds that were made of it, counted or not; its gain is what the board would say beyond that: the
lower of two evaluations, where `kbl record` would take both. `--write` puts the table into docs/trust.md.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "KernelBench"), str(ROOT)]

from kernel_evaluator import secret_draws  # noqa: E402
from kernel_evaluator.timing import deals, pairing, timed_outputs  # noqa: E402
from kernel_evaluator.timing.deck import Deck  # noqa: E402
from kernel_evaluator.timing.measurement import Measurement  # noqa: E402
from pages import renew  # noqa: E402

SHARES = {"upstream": 1 / 16, "signed": 5 / 16, "needles": 5 / 16, "rows": 5 / 16}
DEAL_MS, MOST_CALLS, OVERHEAD_MS, NOISE = 8.0, 64, 0.8, 0.002
FAST = 4.0
SHARES_OF_TIME = (0.05, 0.15, 0.25, 0.4)
BEGIN = "<!-- selection: written by benchmarks/selection.py --write -->"
END = "<!-- end of selection -->"


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What a kernel can know when a call begins."""

    placing: int
    place: int
    length: int
    kind: str
    batch: int
    now_s: float
    chance: float


Policy = Callable[[Moment], bool]
"""Whether a call is fast."""


@dataclass
class World:
    """A simulated device with its reference and one candidate. Times are in milliseconds of a call."""

    policy: Policy
    rng: random.Random
    reference_ms: float = 1.0
    two_speeds: float = 1.0
    now_s: float = 0.0
    placing: int = 0
    batches: int = 0
    reference_speed: float = 1.0
    waits: float = 0.0
    """For such a share of its calls' time the reference waits for a processor."""
    kinds: dict[int, str] = field(default_factory=dict)
    made: list[pairing.Round] = field(default_factory=list)
    """Every round, those of a single call among them."""

    def run_timed(
        self, _stand: Any, side: Any, order: list[int], *_: Any, written: list[int] | None = None
    ) -> tuple[float, float]:
        """A batch of either side, as `stand.batches.run_timed` gives it."""
        if side.trusted:
            own_ms = sum(self.reference_ms * self.reference_speed * self._noise() for _ in order)
            side.worked_s += own_ms / 1e3
            side.waited_s += self.waits * own_ms / 1e3
        else:
            self.batches += 1
            chance = self.rng.random()
            own_ms = sum(self._call_ms(at, each, len(order), chance) for at, each in enumerate(order))
        overhead_ms = OVERHEAD_MS * (1 + abs(self.rng.gauss(0, 0.05)))
        self.now_s += (own_ms + 2 * overhead_ms) / 1e3
        return own_ms + overhead_ms, own_ms

    def place_memory(self, _stand: Any, side: Any, *_: Any) -> None:
        """Memory taken anew: the candidate knows it, and the reference may run otherwise since."""
        if side.trusted:
            self.reference_speed = self.rng.choice((1.0, self.two_speeds))
        else:
            self.placing += 1

    def round_of(self, part: Any, reference: Any, candidate: Any, **facts: Any) -> pairing.Round:
        """Note every round that is made, whether it will count or not."""
        found = pairing.round_of(part, reference, candidate, **facts)
        self.made.append(found)
        return found

    def _call_ms(self, at: int, each: int, length: int, chance: float) -> float:
        moment = Moment(
            placing=self.placing,
            place=at,
            length=length,
            kind=self.kinds.get(each, ""),
            batch=self.batches,
            now_s=self.now_s,
            chance=chance,
        )
        return self.reference_ms / (FAST if self.policy(moment) else 1.0) * self._noise()

    def _noise(self) -> float:
        return 1 + self.rng.gauss(0, NOISE)

    def stand(self) -> Any:
        """What `deals` asks of a stand."""

        def put(at: int, draw: Callable[[], str], *, secretly: bool) -> None:
            self.kinds[at] = draw()

        calls = self._calls(self.reference_ms)
        nothing = mock.MagicMock()
        return SimpleNamespace(
            device=SimpleNamespace(kind="cuda", is_gpu=True),
            settings=SimpleNamespace(switched_off=()),
            reference=_side(trusted=True),
            core=nothing,
            calls=calls,
            alone_ms=self.reference_ms,
            calls_for=self._calls,
            hold=lambda _calls: False,
            spare=nothing,
            inputs=SimpleNamespace(count=MOST_CALLS, put=put, forget=nothing, writing_bias_ms=0.0),
            outputs=SimpleNamespace(nbytes=1 << 20, count=16),
            source=SimpleNamespace(draw=lambda _seed, kind: kind),
        )

    def _calls(self, call_ms: float) -> int:
        return max(1, min(MOST_CALLS, round(DEAL_MS / call_ms)))


def _side(*, trusted: bool) -> Any:
    process = SimpleNamespace(pid=0, paused_s=0.0, ran_paused_s=0.0, paused=nullcontext)
    return SimpleNamespace(trusted=trusted, process=process, waited_s=0.0, worked_s=0.0)


@contextmanager
def simulated(world: World) -> Iterator[None]:
    """Within this `deals.measure` runs in that world, with all its own rules."""
    look = pairing.Look(candidate_ms=[0.2], reference_ms=[0.2], counts=[1])

    def see(_stand: Any, _part: Any, drawn: Any, kept: Any, verify: Any) -> pairing.Look:
        for each in kept:
            for at in each:
                verify([], [], {"distribution": drawn[at][1]})
        return look

    changed = {
        "run_timed": world.run_timed,
        "place_memory": world.place_memory,
        "time": SimpleNamespace(monotonic=lambda: world.now_s),
    }
    with ExitStack() as stack:
        for name, value in changed.items():
            stack.enter_context(mock.patch.object(deals, name, value))
        rounds = SimpleNamespace(**{**vars(pairing), "round_of": world.round_of})
        stack.enter_context(mock.patch.object(deals, "pairing", rounds))
        stack.enter_context(
            mock.patch.object(timed_outputs, "collect", lambda _s, _c, _p, chosen, _l: chosen)
        )
        stack.enter_context(mock.patch.object(timed_outputs, "verify", see))
        stack.enter_context(mock.patch.object(secret_draws, "_random", world.rng))
        yield


def evaluate(policy: Policy, seed: int, **device: float) -> tuple[float | None, list[pairing.Round]]:
    """One evaluation: the speedup, None where no row would be taken, and all rounds of several calls."""
    found, made = measured(policy, seed, **device)
    lone = {id(r) for r in found.lone}  # they are held against the others, and count in no figure
    return _taken(found), [r for r in made if id(r) not in lone]


def measured(policy: Policy, seed: int, **device: float) -> tuple[Measurement, list[pairing.Round]]:
    """One evaluation: what timing gives, and all rounds that were made."""
    world = World(policy=policy, rng=random.Random(seed), **device)
    world.now_s = world.rng.random()  # when the board likes
    began_s = world.now_s
    deck = Deck(SHARES)
    deck.see("upstream")  # as the trials do
    with simulated(world):
        found = deals.measure(
            world.stand(),
            _side(trusted=False),
            lambda: 180.0 - (world.now_s - began_s),
            lambda _right, _given, facts: deck.see(facts["distribution"]),
            deck,
        )
    return found, world.made


def moments(**device: float) -> list[Moment]:
    """The moments that a kernel of one speed meets in an evaluation."""
    found: list[Moment] = []
    evaluate(lambda m: bool(found.append(m)), 0, **device)
    return found


def _taken(found: Measurement) -> float | None:
    return None if found.suspicion else float(found.fields()["speedup"])


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What a policy got: in the mean beyond its honest speed, and how often more than 1 %."""

    name: str
    honest: float
    once: float
    mean: float
    often: float


def gain_of(name: str, policy: Policy, evaluations: int, seed: int, **device: float) -> Gain:
    """Judge a kernel with that policy so many times, each time twice."""
    runs = [evaluate(policy, seed + at, **device) for at in range(2 * evaluations)]
    honest = honest_speed([r for _, made in runs for r in made])
    found = [speedup for speedup, _ in runs]
    pairs = [min(a, b) if a and b else None for a, b in zip(found[::2], found[1::2], strict=True)]
    beyond = [lower / honest - 1 if lower else 0.0 for lower in pairs]
    once = [each / honest - 1 if each else 0.0 for each in found]
    return Gain(
        name=name,
        honest=honest,
        once=statistics.fmean(once),
        mean=statistics.fmean(beyond),
        often=sum(each > 0.01 for each in beyond) / evaluations,
    )


def honest_speed(made: list[pairing.Round]) -> float:
    """The median of all rounds; what all calls took, where that is faster: nobody gains by working."""
    took = sum(r.reference_ms * r.calls for r in made) / sum(r.candidate_ms * r.calls for r in made)
    return max(took, statistics.median(r.reference_ms / r.candidate_ms for r in made))


def policies() -> dict[str, Policy]:
    """Policies of every kind, with how often they are fast."""

    def every(count: int, first: int) -> Policy:
        return lambda m: m.placing % count < first

    found: dict[str, Policy] = {
        "steady": lambda m: False,
        "fast in the first placing": lambda m: m.placing <= 1,
        "fast in the first two placings": lambda m: m.placing <= 2,
        "fast after the first placing": lambda m: m.placing > 1,
        "fast on usual inputs": lambda m: m.kind == "upstream",
        "fast on usual inputs of large deals": lambda m: m.kind == "upstream" and m.length > 8,
        "fast on all but usual inputs": lambda m: m.kind != "upstream",
        "fast on the first call": lambda m: m.place == 0,
        "fast on all but the first call": lambda m: m.place > 0,
        "fast in long batches": lambda m: m.length >= 4,
        "fast in short batches": lambda m: m.length < 4,
        "fast in the first four batches": lambda m: m.batch <= 4,
        "fast after eight batches": lambda m: m.batch > 8,
    }
    for share in SHARES_OF_TIME:
        found[f"fast in {share:.0%} of batches"] = lambda m, s=share: m.chance < s  # type: ignore[misc]
        for period_s in (0.02, 0.1):
            found[f"fast {share:.0%} of each {1e3 * period_s:.0f} ms"] = (
                lambda m, s=share, p=period_s: m.now_s % p < s * p  # type: ignore[misc]
            )
    for count in (2, 3, 4, 8):
        for first in range(1, count):
            if first / count <= SHARES_OF_TIME[-1]:
                found[f"fast in {first} of {count} placings"] = every(count, first)
    return found


DEVICES = {
    "1 ms": {},
    "0.1 ms": {"reference_ms": 0.1},
    "6 ms": {"reference_ms": 6.0},
    "1 ms or 1.3": {"two_speeds": 1.3},
}
"""References by how long they take; the last by where its memory lies."""


def search(evaluations: int, seed: int = 1) -> list[Gain]:
    """Judge all policies beside all references, the best first."""
    found = [
        gain_of(f"{name}, beside {of}", policy, evaluations, seed, **device)
        for of, device in DEVICES.items()
        for name, policy in policies().items()
    ]
    return sorted(found, key=lambda gain: -gain.mean)


def table(found: list[Gain], shown: int) -> str:
    """The best policies, as Markdown."""
    lines = ["| policy | honest speed | gain once | gain | beyond 1 % |", "|---|--:|--:|--:|--:|"]
    lines += [
        f"| {g.name} | {g.honest:.3f}x | {g.once:.2%} | {g.mean:.2%} | {g.often:.0%} |" for g in found[:shown]
    ]
    return "\n".join(lines)


def main() -> None:
    """Print the best policies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evaluations", type=int, default=40)
    parser.add_argument("--shown", type=int, default=8)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    text = table(search(options.evaluations), options.shown)
    print(text)
    if options.write:
        renew(ROOT / "docs" / "trust.md", BEGIN, END, text)


if __name__ == "__main__":
    main()
