"""Would the oracle's clock alone do? Both clocks on the same rounds: how far off, how wide the intervals.

    python benchmarks/clocks.py

`benchmarks/results/clocks-H200.jsonl.gz` holds every round of 51 copies of the references and of 27 Triton
kernels on an H200, a measurement a line, as they came. Decision 40 rests on it.
"""

from __future__ import annotations

import gzip
import json
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "KernelBench")]

from kernel_evaluator.timing.pairing import median_interval  # noqa: E402

RAW = ROOT / "benchmarks" / "results" / "clocks-H200.jsonl.gz"
COPIES = 51


def main() -> int:
    """Print the figures of both ways of timing, for copies of the references and for faster kernels."""
    with gzip.open(RAW, "rt", encoding="utf-8") as lines:
        found = [json.loads(line)["rounds"] for line in lines]
    for name, some in (("copies", found[:COPIES]), ("kernels", found[COPIES:])):
        both = [figures(each, "candidate_ms") for each in some]
        alone = [figures(each, "oracle_ms") for each in some]
        true = [1.0] * len(both) if name == "copies" else [middle for middle, _ in both]
        for way, values in (("two clocks", both), ("the oracle's alone", alone)):
            print(f"{name:8} {way:18} {summary(values, true)}")
    return 0


def figures(rounds: list[dict[str, Any]], side: str) -> tuple[float, float]:
    """The speedup, and half the width of its interval as a share; the oracle's time is without overhead."""
    for each in rounds:
        each["oracle_ms"] = max(each["candidate_wall_ms"] - each["overhead_ms"], 1e-9)
    ratios = [each["reference_ms"] / each[side] for each in rounds]
    middle, (low, high) = statistics.median(ratios), median_interval(ratios)
    return middle, max(high - middle, middle - low) / middle


def summary(values: Iterable[tuple[float, float]], true: list[float]) -> str:
    """Say how far speedups lie from what they should be, and how wide the intervals are."""
    listed = list(values)
    off = sorted(abs(middle / right - 1) for (middle, _), right in zip(listed, true, strict=True))
    widths = sorted(width for _, width in listed)
    within = sum(each <= 0.01 for each in off) / len(off)
    return (
        f"n {len(listed)}, off by {statistics.median(off):.2%} in the median and {off[-1]:.2%} at most, "
        f"{within:.0%} within 1 %; half widths {statistics.median(widths):.2%}, "
        f"nine in ten below {widths[int(0.9 * len(widths))]:.2%}"
    )


if __name__ == "__main__":
    sys.exit(main())
