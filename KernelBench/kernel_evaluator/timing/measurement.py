"""What the rounds of a paired measurement gave, and the figures of a row that follow from it.

The candidate's word counts as long as the oracle's clock bears it out, and the oracle's time counts where it
does not. Pure arithmetic: no clock, no device.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kernel_evaluator.timing import pairing, placement

BORNE_OUT_SHARE, BORNE_OUT_MS = 0.01, 0.1
"""Within this share, or these milliseconds a deal, the oracle's clock bears the candidate's out."""

UNLIKE_SHARE = 0.002
"""By so much two processes that run the same code may differ all along, which no scatter of rounds shows."""


OVERHEAD_TIMES = 3.0
"""A batch may take so many times what it took besides its calls while the reference was alone.

Who slows what surrounds the reference's calls would else have it subtracted from its own time.
"""

BUSY_SHARE = 0.15
"""On calm processors the reference waits a twelfth of its calls' time at most, on busy ones a quarter."""


@dataclass
class Measurement:
    """What the rounds gave, of `calls` input sets a deal, of which the reference runs `reference_calls`.

    `lone`: rounds of a single call, which count in no figure and are held against the others.
    `paused_ms`: how long the candidate was stopped, and what it used of processors meanwhile.
    `alone_ms`: a call of the reference while no candidate was at work. `alone_overheads_ms`: what a batch of
    one call, and of all the reference's calls, took besides then. `waited_share`: for such a share of its
    calls' time the reference could run and got no processor, beyond what the candidate ran. A row carries
    these and the rounds: all figures and suspicions follow from them. `suspicion` names what a person should
    look at.

    While it is made: `placings` counts how often memory was taken anew; a doubt asks for `rounds_wanted`;
    `is_tight` where the interval was narrow after the last deal; `order`: who goes first in a deal, the
    reference or not. `believes`: the candidate's word counts whatever the oracle's clock says, for a test.
    """

    calls: int
    reference_calls: int = 0
    rounds: list[pairing.Round] = field(default_factory=list)
    lone: list[pairing.Round] = field(default_factory=list)
    alone_ms: float | None = None
    alone_overheads_ms: tuple[float, float] | None = None
    paused_ms: tuple[float, float] | None = None
    deals: int = 0
    placings: int = 0
    rounds_wanted: int = 0
    is_tight: bool = False
    believes: bool = False
    order: list[bool] = field(default_factory=lambda: [True, False])
    deferred_ms: float = 0.0
    labels: list[str] = field(default_factory=list)
    waited_share: float = 0.0
    suspicion: tuple[str, str] | None = None

    @property
    def counted(self) -> list[pairing.Round]:
        """The rounds as they count: all of them, beside a reference without bad luck of its own."""
        return placement.without_luck(self.rounds)

    @property
    def claimed_ms(self) -> float:
        """The candidate's milliseconds a call by its own clock."""
        return statistics.median(r.candidate_ms for r in self.rounds)

    @property
    def reference_ms(self) -> float:
        """The reference's milliseconds a call, by its own clock, as they count."""
        return statistics.median(r.reference_ms for r in self.counted)

    @property
    def best_reference_ms(self) -> float:
        """The reference's milliseconds a call where its memory lies well, if that shows."""
        well_placed = placement.reference_where_it_shows_ms(self.rounds)
        return self.reference_ms if well_placed is None else well_placed

    @property
    def oracle_ms(self) -> float:
        """The candidate's milliseconds a call by the oracle's clock."""
        return max(pairing.oracle_ms(self.rounds, self._most_overhead_ms), 1e-6)

    @property
    def is_stretched(self) -> bool:
        """Whether the oracle's clock does not bear out the candidate's, and its times count for more."""
        return self._correction() != 1.0

    @property
    def is_bounded(self) -> bool:
        """Whether overheads were beyond what they may be, so that the oracle's clock says more."""
        free_ms = max(pairing.oracle_ms(self.rounds), 1e-6)
        return self.oracle_ms > (1 + BORNE_OUT_SHARE) * free_ms + BORNE_OUT_MS / self.calls

    @property
    def is_busy(self) -> bool:
        """Whether others kept the processors busy while the candidate was stopped: no kernel's doing."""
        return self.waited_share > BUSY_SHARE

    def fields(self) -> dict[str, Any]:
        """The row's fields.

        Where work was put off no round counts as faster than the middle one with it: not all put off as much.
        """
        rounds, factor = self.counted, self._correction()
        borne_out = [r.candidate_ms * factor if factor else self.oracle_ms for r in rounds]
        least = statistics.median(borne_out) + self.deferred_ms if self.deferred_ms else 0.0
        counted = [replace(r, candidate_ms=max(ms, least)) for r, ms in zip(rounds, borne_out, strict=True)]
        ratio, (low, high) = pairing.speedup(counted)
        return {
            "runtime_ms": pairing.timing([r.candidate_ms for r in counted]),
            "reference_ms": pairing.timing([r.reference_ms for r in counted]),
            "speedup": ratio,
            "speedup_ci95": (low * (1 - UNLIKE_SHARE), high * (1 + UNLIKE_SHARE)),
            "second_clock_ms": self.oracle_ms,
            "clock_disagreement": abs(self.claimed_ms - self.oracle_ms) / self.oracle_ms,
        }

    def evidence(self) -> dict[str, Any]:
        """The numbers behind a suspicion."""
        return {
            "oracle_ms": self.oracle_ms,
            "claimed_ms": self.claimed_ms,
            "deferred_ms": self.deferred_ms,
            "single_call_ms": statistics.median(r.candidate_ms for r in self.lone) if self.lone else 0.0,
            "calls_a_batch": self.calls,
        }

    def to_json(self) -> dict[str, Any]:
        """What a row carries of it: the rounds as columns, so that all figures can be worked out again."""
        calls = {"calls_a_deal": self.calls, "reference_calls_a_deal": self.reference_calls}
        said = {**calls, **pairing.columns(self.rounds)}
        if self.lone:
            said["lone"] = pairing.columns(self.lone)
        if self.paused_ms:
            said["paused_ms"] = list(self.paused_ms)
        if self.alone_ms is not None:
            said["alone_ms"] = self.alone_ms
        if self.waited_share:
            said["waited_share"] = self.waited_share
        if self.alone_overheads_ms:
            said["alone_overheads_ms"] = list(self.alone_overheads_ms)
        return said

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Measurement:
        """Read what a row carries; raise ValueError, KeyError or TypeError where it is no measurement."""
        paused_ms, overheads_ms = said.get("paused_ms"), said.get("alone_overheads_ms")
        return cls(
            calls=said["calls_a_deal"],
            reference_calls=said["reference_calls_a_deal"],
            rounds=pairing.from_columns(said),
            lone=pairing.from_columns(said["lone"]) if "lone" in said else [],
            alone_ms=said.get("alone_ms"),
            waited_share=said.get("waited_share", 0.0),
            alone_overheads_ms=(overheads_ms[0], overheads_ms[1]) if overheads_ms else None,
            paused_ms=(paused_ms[0], paused_ms[1]) if paused_ms else None,
        )

    def overhead_alone_ms(self, calls: int) -> float:
        """What a batch of so many calls took besides them while no candidate was there; infinite if unknown.

        Between one call and all of the reference's it grows by the same for each, for writing inputs.
        """
        if not self.alone_overheads_ms:
            return math.inf
        one_ms, all_ms = self.alone_overheads_ms
        each_ms = (all_ms - one_ms) / max(self.reference_calls - 1, 1)
        return one_ms + max(each_ms, one_ms if self.reference_calls == 1 else 0.0) * (calls - 1)

    def _most_overhead_ms(self, calls: int) -> float:
        if self.is_busy:
            return math.inf
        return OVERHEAD_TIMES * self.overhead_alone_ms(calls)

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
