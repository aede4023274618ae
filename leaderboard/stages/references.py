"""Scores against other references than eager PyTorch: torch.compile, and the best that PyTorch offers. Pure.

All come from rows of one board: an entry's speedup over eager PyTorch, divided by that of a baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from kernel_evaluator import scores
from kernel_evaluator.records.keys import RANKED_LEVELS

from leaderboard.stages.known import Known, digest_of
from leaderboard.stages.speedups import Speedups
from leaderboard.stages.standings import THRESHOLDS, Against, Reference

Factors = Mapping[Reference, Mapping[str, float]]

Held = tuple[Against, Mapping[int, Against]]
"""Scores over all ranked levels, and by level."""


def factors_of(baselines: Mapping[str, Speedups]) -> Factors:
    """Give how much faster than eager PyTorch each other reference is, by problem, from baselines.

    Where eager PyTorch is all that was measured of PyTorch, it is the only reference.
    """
    compiled = [item for entry, item in baselines.items() if is_compile(entry)]
    found: dict[Reference, Mapping[str, float]] = {}
    if compiled:
        found["compile"] = _fastest(compiled)
    if not all(map(is_eager, baselines)):
        found["best"] = _fastest(list(baselines.values()))
    return found


def is_eager(entry: str) -> bool:
    """Say whether a baseline is eager PyTorch, by the name that it has on boards."""
    return entry.startswith("pytorch-eager")


def is_compile(entry: str) -> bool:
    """Say whether a baseline is torch.compile with its default options, by the name that it has on boards."""
    return entry.startswith("torch-compile") and "autotune" not in entry


def against(
    entries: Mapping[str, Speedups], factors: Factors, known: Known
) -> dict[Reference, dict[str, Held]]:
    """Hold every entry against every reference."""
    return {reference: _held(entries, found, known) for reference, found in factors.items()}


def _fastest(baselines: Sequence[Speedups]) -> dict[str, float]:
    logs = np.max([item.gains for item in baselines], axis=0)
    return dict(zip(baselines[0].problems, np.exp(logs).tolist(), strict=True))


def _held(entries: Mapping[str, Speedups], factors: Mapping[str, float], known: Known) -> dict[str, Held]:
    problems = next(iter(entries.values())).problems
    own = np.log([factors[problem] for problem in problems])
    masks = {level: np.array([p.startswith(f"{level}_") for p in problems]) for level in RANKED_LEVELS}
    logs = {name: item.logs - own for name, item in entries.items()}

    def hold(names: list[str]) -> dict[str, Held]:
        intervals = scores.geomean_intervals({name: np.fmax(logs[name], 0.0) for name in names})
        return {
            name: (
                _against(logs[name], intervals[name]),
                {level: _against(logs[name][mask]) for level, mask in masks.items() if mask.any()},
            )
            for name in names
        }

    return known.all_of({name: digest_of("held", item) for name, item in logs.items()}, hold)


def _against(logs: scores.Gains, ci95: tuple[float, float] | None = None) -> Against:
    correct = logs[~np.isnan(logs)]
    return Against(
        deployed_speedup=float(np.exp(np.fmax(logs, 0.0).mean())),
        geomean_speedup=float(np.exp(correct.mean())) if correct.size else None,
        fast={p: float((correct >= np.log(p)).sum() / logs.size) for p in THRESHOLDS},
        ci95=ci95,
    )
