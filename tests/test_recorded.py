"""What is recorded of H200s: the board's entries, and what judging their kernels again said of them."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from kernel_evaluator.records.rows import Row, Status
from kernel_evaluator.scores import ELSEWHERE_SHARE, intervals_apart, published_interval

from leaderboard.files.store import read_result

ROOT = Path(__file__).resolve().parents[1]
RESULTS = sorted((ROOT / "data/results/H200").glob("*.json"))
AUDITS = sorted((ROOT / "benchmarks/results").glob("audit-*-H200.json"))
BASELINES = ("pytorch-eager", "torch-compile", "torch-compile-max-autotune")
FOUNDERS = ("founders-cuda", "founders-triton")
BY_SOURCE = (*FOUNDERS, "founders-cutile", "first-light")
"""Labelled by what their sources say, not by what they launch: a kernel of one's own has no label then."""


def rows_of(entry: str) -> tuple[Row, ...]:
    return read_result(ROOT / f"data/results/H200/{entry}.json").rows


@pytest.mark.parametrize("entry", BASELINES)
def test_a_baseline_has_a_row_for_every_problem(entry: str) -> None:
    assert {row.key.level: 0 for row in rows_of(entry)} == {1: 0, 2: 0, 3: 0}
    assert len({row.key for row in rows_of(entry)}) == 250


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_every_row_carries_what_its_verdict_stands_on(path: Path) -> None:
    result = read_result(path)
    for row in result.rows:
        assert row.environment in result.environments, row.key
        if row.is_correct:
            assert row.speedup_ci95 and (row.labels or not row.elsewhere), row.key
            assert bool({"library", "mixed", "custom"} & set(row.labels)) == (path.stem not in BY_SOURCE)
        elif row.status in (Status.FRAGILE, Status.REJECTED, Status.QUARANTINED):
            assert row.failure and row.evidence, row.key
        else:
            assert row.failure, row.key


def test_the_founders_kernels_are_right_and_many_are_faster_beyond_doubt() -> None:
    rows = [row for entry in FOUNDERS for row in rows_of(entry)]
    correct = [row for row in rows if row.is_correct]
    faster = [row for row in correct if (published_interval(row.speedup_ci95) or (0.0, 0.0))[0] > 1]
    assert len({(row.key.level, row.key.problem_id) for row in correct}) >= 120
    assert len(faster) >= 25


@pytest.mark.parametrize("path", AUDITS, ids=lambda path: path.stem)
def test_an_audit_of_the_ten_fastest_rows_confirms_them(path: Path) -> None:
    found = [
        (Row.from_json(each["before"]), Row.from_json(each["after"])) for each in json.loads(path.read_text())
    ]
    recorded = {row.key: row for row in rows_of(path.stem.removeprefix("audit-").removesuffix("-H200"))}
    fastest = sorted(recorded.values(), key=lambda row: -(row.speedup or 0))[:10]
    assert {row.key for row in fastest} == {before.key for before, _ in found}
    for before, after in found:
        intervals = [published_interval(row.speedup_ci95) for row in (before, after)]
        assert before == recorded[before.key]
        assert after.is_correct
        assert intervals_apart(*intervals) == 0, before.key


def test_published_intervals_are_as_wide_as_judging_again_asks_for() -> None:
    figures = json.loads((ROOT / "benchmarks/results/again-H200.json").read_text())["judged_again"]
    assert math.ceil(figures["beyond_of_95_percent"] / 0.005) * 0.005 == pytest.approx(ELSEWHERE_SHARE)
    said = " ".join((ROOT / "docs/method.md").read_text().split())
    counts = re.search(
        r"of (\d+) kernels of ours .+ interval for (\d+) and in the published one for (\d+)", said
    )
    assert counts
    assert [figures[name] for name in ("kernels", "rounds_hold", "published_hold")] == [
        *map(int, counts.groups())
    ]
    assert figures["published_meet"] == figures["kernels"]
