"""The checks of the precision that a submission is for, and of references that do not run in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kernel_evaluator.problems.certificates import not_running
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import BF16, BOARD_PRECISIONS

from leaderboard.checks.document import Document, Spot, quoted


def precision_of(metadata: Mapping[str, Any]) -> str:
    """The class of a submission's board: `bf16` where it says so, and `fp32` otherwise."""
    return BF16 if str(metadata.get("precision", "")).strip().lower() == BF16 else BOARD_PRECISIONS[0]


def precision_known(document: Document) -> Iterator[Spot]:
    """Point at a precision that no board has: its kernels would be held to the tolerance of another."""
    written = document.metadata.get("precision")
    if not isinstance(written, str) or written.strip().lower() in BOARD_PRECISIONS:
        return
    yield Spot(
        offset=document.offset("metadata", "precision"),
        message=f"metadata.precision is {quoted(written)}, of which there is no board: fp32 counts",
        mend=f"write {' or '.join(BOARD_PRECISIONS)}: what inputs, weights and outputs are",
    )


def reference_runs(document: Document) -> Iterator[Spot]:
    """Point at kernels of problems on which nothing can be judged: no verdict would ever come."""
    precision = precision_of(document.metadata)
    failing = not_running(precision)
    for name in document.kernels:
        try:
            key = KernelKey.parse(name)
        except ValueError:
            continue
        if f"{key.level}_{key.problem_id}" in failing:
            yield Spot(
                offset=document.offset("kernels", name),
                message=f"{name} is of a problem whose reference does not run in {precision}",
                mend="leave it out: it counts nowhere, and no verdict can come",
            )
