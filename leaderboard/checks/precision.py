"""The check of kernels whose reference does not run in the precision that a submission is for."""

from __future__ import annotations

from collections.abc import Iterator

from kernel_evaluator.problems.certificates import not_running
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import BOARD_PRECISIONS

from leaderboard.checks.document import Document, Spot
from leaderboard.texts.json_positions import pointer_of


def reference_runs(document: Document) -> Iterator[Spot]:
    """Point at kernels of problems on which nothing can be judged: no verdict would ever come."""
    metadata = document.value.get("metadata") if isinstance(document.value, dict) else None
    precision = metadata.get("precision", BOARD_PRECISIONS[0]) if isinstance(metadata, dict) else None
    if precision not in BOARD_PRECISIONS:
        return
    failing = not_running(precision)
    for name in document.kernels:
        try:
            key = KernelKey.parse(name)
        except ValueError:
            continue
        if f"{key.level}_{key.problem_id}" in failing:
            yield Spot(
                offset=document.walk.values.get(pointer_of(("kernels", name)), 0),
                message=f"{name} is of a problem whose reference does not run in {precision}",
                mend="leave it out: it counts nowhere, and no verdict can come",
            )
