"""What must hold in every row for its figures to be believed, as plain numbers that people can read.

Worked out from a row alone, with the arithmetic of judging: `kbl record` asks for it, `kbl audit` sets it
beside that of the new judging, and pages can show it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from kernel_evaluator.records.rows import Row
from kernel_evaluator.timing.measurement import Measurement
from kernel_evaluator.timing.stopping import SLOW_BESIDE_MS


@dataclass(frozen=True, kw_only=True)
class Invariants:
    """What a timed row stands on. None where its evaluator noted nothing of it.

    `ran_ms` is the processor time that a candidate used while it was stopped, for `paused_ms` in all.
    `overhead_over_alone` and `reference_over_alone` are medians beside the candidate over what they were
    while the reference was alone. `panel_passed` of `panel_asked` kinds of inputs were tried, or looked at
    while timed. `sharp_share` of timed calls had inputs that tell shortcuts.
    """

    paused_ms: float | None
    ran_ms: float | None
    overhead_over_alone: float | None
    reference_over_alone: float | None
    panel_passed: int | None
    panel_asked: int | None
    looks_are_relative: bool | None
    sharp_share: float | None
    rounds_counted: int
    rounds_made: int
    rounds_looked_at: int
    evaluations: int


def invariants(row: Row) -> Invariants | None:
    """Work out what a row stands on; None where it carries no rounds."""
    if row.rounds is None or row.runtime_ms is None:
        return None
    found = Measurement.from_json(row.rounds)
    paused_ms, ran_ms = found.paused_ms or (None, None)
    beside_ms = statistics.median(r.reference_ms for r in found.rounds)
    alone = [found.overhead_alone_ms(r.calls) for r in found.rounds] if found.alone_overheads_ms else []
    over = [r.overhead_ms * r.calls / max(ms, 1e-3) for r, ms in zip(found.rounds, alone, strict=False)]
    checks = row.checks or {}
    return Invariants(
        paused_ms=paused_ms,
        ran_ms=ran_ms,
        overhead_over_alone=statistics.median(over) if over else None,
        reference_over_alone=beside_ms / found.alone_ms if found.alone_ms else None,
        panel_passed=checks.get("panel_passed"),
        panel_asked=checks.get("panel_asked"),
        looks_are_relative=checks.get("looks_are_relative"),
        sharp_share=checks.get("sharp_share"),
        rounds_counted=len(found.counted),
        rounds_made=len(found.rounds),
        rounds_looked_at=sum(r.look is not None for r in found.rounds),
        evaluations=1 if row.second is None else 2,
    )


def broken(found: Invariants, runtime_ms: float) -> Iterator[str]:
    """Say what does not hold of a correct row; kernels that are called seldom see a part of the panel."""
    missing = [name for name in _NEEDED if getattr(found, name) is None]
    if missing:
        yield f"checks are missing: {', '.join(missing)}; an evaluator that noted none judged it"
        return
    passed, asked = found.panel_passed or 0, found.panel_asked or 0
    if passed > asked or (passed < asked and runtime_ms < SLOW_BESIDE_MS):
        yield f"checks.panel_passed must be panel_asked, {asked}, got {passed}"
    if not found.looks_are_relative:
        yield "checks.looks_are_relative must be true: outputs of timed calls are held against their own size"


_NEEDED = (
    "ran_ms",
    "overhead_over_alone",
    "reference_over_alone",
    "panel_passed",
    "panel_asked",
    "looks_are_relative",
    "sharp_share",
)
