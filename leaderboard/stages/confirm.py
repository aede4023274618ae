"""A row whose speedup counts is judged a second time: later, shorter, by fresh processes. The lower counts.

So luck has to come twice, and what a kernel does in one evaluation it has to do in another. Runs nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.records.rows import Row, Status

SECOND_TRIALS = 1
"""So many plain trials the second evaluation has; other shapes and labels are left to the first."""

FIGURES = (
    "runtime_ms",
    "reference_ms",
    "speedup",
    "speedup_ci95",
    "second_clock_ms",
    "clock_disagreement",
)
"""What a row says of time: it follows from the rounds of whichever evaluation gave the lower speedup."""


def needs_second(row: Row) -> bool:
    """Whether a row's speedup was found once, and counts nowhere before it is found twice.

    Rows without rounds are of evaluators that judged once; they stay what they were.
    """
    was_found_once = row.rounds is not None and row.second is None
    return was_found_once and row.is_correct and row.speedup is not None and row.speedup > 1


def seconds_again(rows: Collection[Row]) -> tuple[float, float]:
    """Give the GPU-seconds and CPU-seconds of second evaluations; a row's own are those of the first."""
    second = [row.second for row in rows if row.second is not None]
    return sum(each["gpu_seconds"] for each in second), sum(each["cpu_seconds"] for each in second)


def seconds_spent(rows: Collection[Row]) -> tuple[float, float]:
    """Give the GPU-seconds and CPU-seconds of both evaluations."""
    gpu_again, cpu_again = seconds_again(rows)
    return sum(row.gpu_seconds for row in rows) + gpu_again, sum(row.cpu_seconds for row in rows) + cpu_again


def second_settings(settings: Settings) -> Settings:
    """How the second evaluation judges: by the same rules, without what only labels hang on."""
    return replace(
        settings,
        trials=SECOND_TRIALS,
        profile_launches=False,
        switched_off=(*settings.switched_off, "census", "elsewhere"),
    )


def confirmed(first: Row, second: Row) -> Row:
    """Give the row that both evaluations make: with the figures of the slower one.

    Where the second says that the kernel is not correct, that is the verdict. Where it says nothing, the
    first waits on for its second, and has cost what both did.
    """
    spent = {name: getattr(first, name) + getattr(second, name) for name in ("gpu_seconds", "cpu_seconds")}
    if second.status is Status.INFRA_ERROR:
        return replace(first, **spent)
    if not second.is_correct or second.speedup is None:
        failure = second.failure
        if failure is not None:
            failure = replace(failure, message=f"when it was judged a second time: {failure.message}")
        return replace(second, failure=failure, **spent)
    lower = min((first, second), key=lambda row: row.speedup or 0.0)
    figures: dict[str, Any] = {name: getattr(lower, name) for name in FIGURES}
    evidence = {
        "finished_at": second.finished_at,
        "gpu_seconds": second.gpu_seconds,
        "cpu_seconds": second.cpu_seconds,
        "rounds": second.rounds,
    }
    worst = max((row.worst_error for row in (first, second) if row.worst_error is not None), default=None)
    labels = tuple(dict.fromkeys((*first.labels, *second.labels)))
    return replace(first, **figures, second=evidence, worst_error=worst, labels=labels)
