"""Measure how far a kernel's speedup moves when it is judged again, which published intervals have to hold.

    python benchmarks/again.py --judged BEFORE.json AFTER.json … --audits AUDIT.json …

A pair of result files holds the same kernels, judged twice; kernels that one of them lacks are left out.
Audits are what `kbl audit --out` wrote, named `audit-<entry>-<gpu>.json`. Prints the figures of both and
writes `benchmarks/results/again-<gpu>.json`, with every pair that they come from.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "KernelBench"), str(ROOT)]

import numpy as np  # noqa: E402
from evaluator import dump  # noqa: E402
from kernel_evaluator import scores  # noqa: E402
from kernel_evaluator.records.keys import PROBLEM_COUNTS, RANKED_LEVELS, KernelKey  # noqa: E402
from kernel_evaluator.records.rows import ResultFile, Row  # noqa: E402

from leaderboard.files.store import read_result, write_atomically  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
Pair = tuple[str, Row, Row]
"""The entry, and a kernel's two rows."""

SIMULATED, SEED = 200, 20_261_123


def main() -> int:
    """Read both kinds of pairs, print their figures and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--judged", type=Path, nargs=2, action="append", required=True, metavar=("BEFORE", "AFTER")
    )
    parser.add_argument("--audits", type=Path, nargs="+", default=[], metavar="AUDIT")
    asked = parser.parse_args()
    runs = [(read_result(before), read_result(after)) for before, after in asked.judged]
    judged = [pair for before, after in runs for pair in judged_pairs(before, after)]
    audited = [pair for path in asked.audits for pair in audited_pairs(path)]
    known = {before.kernel_sha256 for _, before, _ in judged}
    report = {
        "gpu": runs[0][0].board,
        "judged_again": figures(judged),
        "audited": figures(audited),
        "audited_alone": figures([pair for pair in audited if pair[1].kernel_sha256 not in known]),
        "told_apart_from_itself": {before.entry: told_apart(before, judged) for before, _ in runs},
        "simulated": SIMULATED,
        "rows": [
            {"from": name, **facts(pair)}
            for name, pairs in (("judged", judged), ("audited", audited))
            for pair in pairs
        ],
    }
    write_atomically(RESULTS / f"again-{report['gpu']}.json", dump(report))
    for name in ("judged_again", "audited", "audited_alone", "told_apart_from_itself"):
        sys.stdout.write(f"{name}: {json.dumps(report[name], indent=1)}\n")
    return 0


def judged_pairs(before: ResultFile, after: ResultFile) -> list[Pair]:
    """Give the kernels that both runs timed; raise ValueError where they are not the same kernels."""
    known = {row.key: row for row in before.rows}
    pairs = [(before.entry, known[row.key], row) for row in after.rows if row.key in known]
    return [_of_one_kernel(pair) for pair in pairs if _is_timed(pair)]


def audited_pairs(path: Path) -> list[Pair]:
    """Give the kernels that an audit timed as their recorded rows had been."""
    found = json.loads(path.read_text("utf-8"))
    entry = path.stem.removeprefix("audit-").rpartition("-")[0]
    pairs = [(entry, Row.from_json(each["before"]), Row.from_json(each["after"])) for each in found]
    return [_of_one_kernel(pair) for pair in pairs if _is_timed(pair)]


def figures(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Say how speedups moved, and what intervals say of it: those of the rounds, and as they are published.

    `beyond` is how far the second speedup lies outside of the first row's interval, as a share of its bound.
    """
    moved = [abs(after.speedup / before.speedup - 1) for _, before, after in pairs]
    beyond = sorted(_beyond(before.speedup_ci95, after.speedup) for _, before, after in pairs)
    of_95 = beyond[math.ceil(0.95 * len(beyond)) - 1] if beyond else None
    return {
        "kernels": len(pairs),
        "moved_median": float(np.median(moved)) if moved else None,
        "moved_worst": max(moved, default=None),
        "rounds_hold": sum(share == 0 for share in beyond),
        "rounds_meet": sum(_apart(before, after, published=False) == 0 for _, before, after in pairs),
        "beyond_of_95_percent": of_95,
        "published_hold": sum(share <= scores.ELSEWHERE_SHARE for share in beyond),
        "published_meet": sum(_apart(before, after, published=True) == 0 for _, before, after in pairs),
    }


def told_apart(result: ResultFile, judged: Sequence[Pair]) -> int:
    """Count, of SIMULATED times, how often an entry does not share a rank with itself, judged elsewhere.

    Each of its kernels then moves as one of those did that were judged again, drawn at random.
    """
    generator = np.random.default_rng(SEED)
    moves = [after.speedup / before.speedup for entry, before, after in judged if entry == result.entry]
    speedups = {row.key: row.speedup for row in result.rows if row.is_correct}
    every = [KernelKey(level, at) for level in RANKED_LEVELS for at in range(1, PROBLEM_COUNTS[level] + 1)]
    here = [speedups.get(key) for key in every]
    count = 0
    for _ in range(SIMULATED):
        there = [speedup and speedup * generator.choice(moves) for speedup in here]
        gains = {"here": scores.log_gains(here), "there": scores.log_gains(there)}
        count += len(set(scores.shared_ranks(gains).values())) > 1
    return count


def facts(pair: Pair) -> dict[str, Any]:
    """What a figure needs of a kernel's two rows."""
    entry, before, after = pair
    return {"entry": entry, "key": str(before.key), "before": _timed(before), "after": _timed(after)}


def _of_one_kernel(pair: Pair) -> Pair:
    entry, before, after = pair
    for name in ("kernel_sha256", "problem_sha256", "evaluator_sha256"):
        if getattr(before, name) != getattr(after, name):
            raise ValueError(f"{entry} {before.key}: the two rows have another {name}")
    return pair


def _is_timed(pair: Pair) -> bool:
    return all(row.is_correct and row.speedup is not None for row in pair[1:])


def _timed(row: Row) -> dict[str, Any]:
    return {
        "speedup": row.speedup,
        "speedup_ci95": row.speedup_ci95,
        "runtime_ms": row.runtime_ms.median if row.runtime_ms else None,
        "reference_ms": row.reference_ms.median if row.reference_ms else None,
        "finished_at": row.finished_at,
    }


def _beyond(interval: scores.Interval, speedup: float) -> float:
    low, high = interval
    return max(1 - speedup / low, speedup / high - 1, 0.0)


def _apart(before: Row, after: Row, *, published: bool) -> float:
    one, other = before.speedup_ci95, after.speedup_ci95
    if published:
        one, other = scores.published_interval(one), scores.published_interval(other)
    return scores.intervals_apart(one, other) if one and other else math.inf


if __name__ == "__main__":
    sys.exit(main())
