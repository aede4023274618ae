"""What is recorded of H200s: the board's entries, and what judging their kernels again said of them."""

from __future__ import annotations

import json
import math
import re
import sys
import tarfile
from pathlib import Path

import pytest
from kernel_evaluator.problems import deciding
from kernel_evaluator.records.rows import BOARD_PRECISIONS, Row, Status
from kernel_evaluator.records.version import evaluator_sha256
from kernel_evaluator.scores import ELSEWHERE_SHARE, intervals_apart, published_interval

from leaderboard.files.store import read_result
from leaderboard.stages.boards import read_deals

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import reality  # noqa: E402
import reality_report  # noqa: E402

RESULTS = sorted((ROOT / "data/results/H200").glob("*.json"))
BEGUN = sorted((ROOT / "benchmarks/begun").glob("*.tar.gz"))
AUDITS = sorted((ROOT / "data/audits/H200").glob("founders-*/2026-11-23.json"))
BASELINES = ("pytorch-eager", "torch-compile", "torch-compile-max-autotune")
FOUNDERS = ("founders-cuda", "founders-triton")
BY_SOURCE = (*FOUNDERS, "founders-cutile", "first-light")
"""Labelled by what their sources say, not by what they launch: a kernel of one's own has no label then."""


def rows_of(entry: str) -> tuple[Row, ...]:
    return read_result(ROOT / f"data/results/H200/{entry}.json").rows


@pytest.mark.parametrize("archive", BEGUN, ids=lambda path: path.stem)
def test_what_was_begun_can_be_gone_on_with_and_is_not_recorded_yet(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    begun = [(path, read_result(path)) for path in sorted(tmp_path.glob("part-*/*/*.json"))]
    for path, result in begun:
        recorded = read_result(ROOT / "data/results" / path.parent.name / path.name)
        assert {row.evaluator_sha256 for row in result.rows} == {evaluator_sha256()}, path
        assert evaluator_sha256() not in {row.evaluator_sha256 for row in recorded.rows}, path
        deals = read_deals(deciding.sharpness_of(result.precision))
        for row in result.rows:
            _, deal = deals[f"{row.key.level}_{row.key.problem_id}"]
            if row.speedup is not None:
                assert ("blunt" in row.labels) == bool(deal.blunt), row.key
    kinds = {str(kernel.key): kernel.kind for kernel in reality.corpus()}
    found = reality_report.report(tmp_path / "reality", kinds)
    summary, beside = found["summary"], found["summary"]["references_beside_builds"]
    assert found["evaluators"] == [evaluator_sha256()]
    judged = sum(row["gpu_s"] is not None and row["kind"] != "hangs" for row in found["rows"])
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    figures = (
        f"{judged} cost {summary['mean_gpu_s']:.2f} seconds of the H200 each and {summary['max_gpu_s']:.1f} at most,"
        f" and {summary['wall_s_per_kernel']:.2f} seconds of the clock. Of {len(found['references'])} references"
        f" beside twelve builds 95 % are within {100 * beside['p95']:.1f} %"
    )
    assert figures in readme


@pytest.mark.parametrize("entry", BASELINES)
def test_a_baseline_has_a_row_for_every_problem(entry: str) -> None:
    assert {row.key.level: 0 for row in rows_of(entry)} == {1: 0, 2: 0, 3: 0}
    assert len({row.key for row in rows_of(entry)}) == 250


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_every_row_carries_what_its_verdict_stands_on(path: Path) -> None:
    result, deals = read_result(path), read_deals()
    for row in result.rows:
        assert row.environment in result.environments, row.key
        _, deal = deals[f"{row.key.level}_{row.key.problem_id}"]
        if row.speedup is not None and row.evaluator_sha256 == evaluator_sha256():
            assert ("blunt" in row.labels) == bool(deal.blunt), row.key
        if row.is_correct:
            assert row.speedup_ci95 and (row.labels or not row.elsewhere), row.key
            assert bool({"library", "mixed", "custom"} & set(row.labels)) == (path.stem not in BY_SOURCE)
        elif row.status in (Status.FRAGILE, Status.REJECTED, Status.QUARANTINED):
            assert row.failure and row.evidence, row.key
        else:
            assert row.failure, row.key


def test_twins_were_tried_on_as_few_distributions_as_the_method_says() -> None:
    said = " ".join((ROOT / "docs/method.md").read_text("utf-8").split())
    fp32, bf16 = (
        [
            len(entry["inputs"])
            for entry in deciding.read(deciding.sharpness_of(precision))["problems"]["full"].values()
            if "inputs" in entry
        ]
        for precision in BOARD_PRECISIONS
    )
    assert min(*fp32, *bf16) == 4
    counts = f"{fp32.count(4)} problems have no more in fp32, and {bf16.count(4)} in bf16"
    assert f"Four are the least, and at full size {counts}." in said


def test_the_founders_kernels_are_right_and_many_are_faster_beyond_doubt() -> None:
    rows = [row for entry in FOUNDERS for row in rows_of(entry)]
    correct = [row for row in rows if row.is_correct]
    faster = [row for row in correct if (published_interval(row.speedup_ci95) or (0.0, 0.0))[0] > 1]
    assert len({(row.key.level, row.key.problem_id) for row in correct}) >= 120
    assert len(faster) >= 25


def test_audits_of_the_fastest_rows_are_what_decision_23_says_of_them() -> None:
    found = [each for path in AUDITS for each in json.loads(path.read_text("utf-8"))]
    pairs = [(Row.from_json(each["before"]), Row.from_json(each["after"])) for each in found]
    own, published = [0, 0], [0, 0]
    for before, after in pairs:
        assert after.is_correct and before.speedup_ci95 and after.speedup_ci95
        for counts, of_row in ((own, lambda row: row.speedup_ci95), (published, published_of)):
            first, again = of_row(before), of_row(after)
            counts[0] += first[0] <= after.speedup <= first[1]
            counts[1] += intervals_apart(first, again) == 0
    assert (len(pairs), own, published) == (20, [11, 15], [19, 20])
    assert [each["key"][6:-9] for each in found if each["differs"]] == ["2_problem_14", "2_problem_18"]


def published_of(row: Row) -> tuple[float, float]:
    found = published_interval(row.speedup_ci95)
    assert found
    return found


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
