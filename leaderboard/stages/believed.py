"""What a timed row must show before it is believed: every figure is worked out again from the row's rounds.

Whoever gets out of a container's walls can write rows. So a row has to agree with the arithmetic of judging,
with what the device can do, with what the reference took before, and with what honest rows look like.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from kernel_evaluator.machine.figures import PLAUSIBLE, floor_ms
from kernel_evaluator.records.rows import ResultFile, Row, Status, Timing
from kernel_evaluator.timing import suspicions
from kernel_evaluator.timing.measurement import Measurement
from kernel_evaluator.timing.pairing import LEAST_SHARED, MIN_ROUNDS

from leaderboard.stages.confirm import FIGURES
from leaderboard.stages.invariants import broken, invariants

REFERENCE_WITHIN = 3.0
"""The reference takes at most so many times what it took for the baselines, and no less than that part.
Models that wait for launches took up to 2.6 times as long on one host with an H100 as on another."""

CLOCKS_APART_S = 300.0
"""Another machine's clock may be so far ahead."""

_SAME = 1e-9


def doubts(row: Row, result: ResultFile, usual_ms: float | None) -> Iterator[str]:
    """Say why a correct row cannot be believed; `usual_ms` is what the reference takes, if that is known."""
    if row.status is not Status.CORRECT:
        return
    if row.failure or row.evidence:
        yield "a correct row must carry no failure and no evidence against it"
    if row.rounds is None:
        yield "rounds are missing: an evaluator that noted none judged it; evaluate it again"
        return
    device = "cpu" if result.gpu == "CPU" else "cuda"
    found = []
    for name, rounds in {"rounds": row.rounds, "second.rounds": (row.second or {}).get("rounds")}.items():
        if rounds is None:
            continue
        try:
            found.append(each := worked_out(rounds, device))
        except (ArithmeticError, ValueError, KeyError, TypeError) as error:
            yield f"{name} cannot be read: {type(error).__name__} {str(error)[:200]}"
            return
        yield from _odd(name, each)
    yield from _other_figures(row, min((each.fields() for each in found), key=lambda said: said["speedup"]))
    missing = {label for each in found for label in each.labels} - set(row.labels)
    if missing:
        yield f"its rounds ask for the label {', '.join(sorted(missing))}"
    yield from _second_is_another(row)
    if (stands_on := invariants(row)) is not None and row.runtime_ms is not None:
        yield from broken(stands_on, row.runtime_ms.median)
    yield from _implausible(row, result, usual_ms)


def _odd(name: str, found: Measurement) -> Iterator[str]:
    if found.calls >= LEAST_SHARED and len(found.lone) < MIN_ROUNDS:
        yield f"{name}.lone must hold at least {MIN_ROUNDS} rounds of a call alone, got {len(found.lone)}"
    if found.suspicion:
        yield f"{name} say {found.suspicion[0]}: {found.suspicion[1]}"


def worked_out(rounds: Mapping[str, Any], device: str) -> Measurement:
    """Judge the rounds of a row anew; raise ArithmeticError, ValueError, KeyError or TypeError for none."""
    found = Measurement.from_json(rounds)
    if len(found.rounds) < MIN_ROUNDS:
        raise ValueError(f"rounds must be at least {MIN_ROUNDS}, got {len(found.rounds)}")
    suspicions.judge_all(found, device)
    found.fields()
    return found


def _second_is_another(row: Row) -> Iterator[str]:
    """What was found a second time was found later, in rounds of its own. Without it a row counts nowhere."""
    if row.second is not None:
        if row.second["rounds"] == row.rounds:
            yield "second.rounds are those of the first evaluation"
        again = datetime.fromisoformat(row.second["finished_at"]) + timedelta(seconds=CLOCKS_APART_S)
        if row.finished_at and again < datetime.fromisoformat(row.finished_at):
            yield (
                f"second.finished_at must not be before {row.finished_at}, got {row.second['finished_at']}: "
                "set the clocks of both machines, and run kbl evaluate --again"
            )


def _other_figures(row: Row, said: Mapping[str, Any]) -> Iterator[str]:
    for name in FIGURES:
        claimed, worked_out = getattr(row, name), said[name]
        if not _same(claimed, worked_out):
            given = f"which give {_short(worked_out)}, got {_short(claimed)}"
            yield f"{name} must follow from the rounds, {given}"


def _implausible(row: Row, result: ResultFile, usual_ms: float | None) -> Iterator[str]:
    if row.speedup is None or row.runtime_ms is None or row.reference_ms is None:
        return
    if row.speedup > PLAUSIBLE:
        yield f"speedup {row.speedup:.4g} is above {PLAUSIBLE:g}: such a row waits in quarantine for a person"
    runtime_ms, key = row.runtime_ms.median, row.key
    precision: Any = result.precision
    is_full = result.sizes == "full"
    least_ms = floor_ms(key.level, key.problem_id, gpu=result.gpu, precision=precision) if is_full else None
    if least_ms is not None and runtime_ms < least_ms:
        yield f"runtime_ms {runtime_ms:.4g} is below the {least_ms:.4g} that the device needs at least"
    reference_ms = row.reference_ms.median
    if usual_ms and not 1 / REFERENCE_WITHIN <= reference_ms / usual_ms <= REFERENCE_WITHIN:
        yield f"reference_ms is {reference_ms:.4g}; the reference takes about {usual_ms:.4g} on this GPU"


def _same(claimed: Any, worked_out: Any) -> bool:
    if isinstance(claimed, Timing) and isinstance(worked_out, Timing):
        return _same(tuple(vars(claimed).values()), tuple(vars(worked_out).values()))
    if isinstance(claimed, tuple) and isinstance(worked_out, tuple):
        return all(_same(one, other) for one, other in zip(claimed, worked_out, strict=True))
    return claimed is not None and math.isclose(claimed, worked_out, rel_tol=_SAME, abs_tol=1e-12)


def _short(value: Any) -> str:
    if isinstance(value, Timing):
        return f"median {value.median:.6g} of {value.n}"
    if isinstance(value, tuple):
        return "-".join(f"{each:.6g}" for each in value)
    return "nothing" if value is None else f"{value:.6g}"
