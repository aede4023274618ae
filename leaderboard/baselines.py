"""Reads `baselines/<gpu>.json`: PyTorch's own times, shown beside results. Judges nothing."""

from __future__ import annotations

from pathlib import Path

from kernelbench.baselines import BaselineFile

from leaderboard.store import StoreError, read_strictly


def read_baseline(path: Path) -> BaselineFile:
    """Read a baseline; raise StoreError where it is broken or its path names another GPU."""
    try:
        baseline = BaselineFile.from_json(read_strictly(path))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"{path}: not a baseline file: {error}") from error
    if baseline.gpu != path.stem:
        raise StoreError(f"{path}: says it is for {baseline.gpu}; the path must say the same")
    return baseline
