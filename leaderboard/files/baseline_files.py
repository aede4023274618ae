"""Reads `baselines/<board>.json`: PyTorch's own times, for comparisons and for what `record` believes."""

from __future__ import annotations

from pathlib import Path

from kernel_evaluator.baselines import BaselineFile

from leaderboard.files.store import StoreError, read_strictly


def read_baseline(path: Path) -> BaselineFile:
    """Read a baseline; raise StoreError where it is broken or its path names another board."""
    try:
        baseline = BaselineFile.from_json(read_strictly(path))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"{path}: not a baseline file: {error}") from error
    if baseline.name != path.stem:
        raise StoreError(f"{path}: says it is for {baseline.name}; the path must say the same")
    return baseline


def usual_reference_ms(folder: Path, board: str) -> dict[tuple[int, int], float]:
    """What the reference takes on a board by level and problem; nothing where it was not measured here."""
    path = folder / f"{board}.json"
    baseline = read_baseline(path) if path.is_file() else None
    found = {}
    for name, modes in baseline.problems.items() if baseline and baseline.measured_here else ():
        level, _, problem_id = name.partition("_")
        if modes.eager:
            found[int(level), int(problem_id)] = modes.eager.typical
    return found
