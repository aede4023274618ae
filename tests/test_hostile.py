"""Kernels that attack what runs them: some are judged here, `benchmarks/hostile.py` judges all and records it."""

import ast
import json
import os
import sys
from pathlib import Path

import pytest
from kernel_evaluator.problems.jobs import Settings

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import hostile  # noqa: E402
import hostile_kernels  # noqa: E402

KERNELS = hostile_kernels.read()
SHARE = (
    "fills files without a name",
    "leaves a file in /run/lock",
    "ends as if all were well",
    "prints a verdict",
)


def test_there_are_sixty_and_honest_ones_beside_them():
    assert sum(not each.is_honest for each in KERNELS) >= 60
    assert sum(each.is_honest for each in KERNELS) >= 5
    assert len({each.does for each in KERNELS}) == len(KERNELS)
    for each in KERNELS:
        ast.parse(each.source)


@pytest.mark.skipif(os.geteuid() != 0, reason="walls of every kind take root")
def test_the_guilty_get_what_is_theirs_and_leave_nothing(tmp_path):
    chosen = [each for each in KERNELS if each.does in SHARE] + [each for each in KERNELS if each.is_honest][
        :1
    ]
    settings = Settings(
        device="cpu",
        sizes="reduced",
        timeout_s=60.0,
        memory_gb=hostile.KERNEL_GB,
        trials=1,
        measure=False,
    )
    before = hostile.left()
    found = hostile.judge(chosen, settings, tmp_path / "cache")
    assert [each.kernel.does for each in found if not each.is_fine] == []
    assert len(found) == len(SHARE) + 1
    others = ("process", "/tmp/kernel_evaluator-")  # of evaluations beside
    assert not {each for each in hostile.left() - before if not each.startswith(others)}


def test_the_recorded_run_found_nothing_and_the_page_shows_it():
    recorded = json.loads((ROOT / "benchmarks/results/hostile-CPU.json").read_text())
    assert recorded["hostile"] >= 60
    for name in ("unexpected", "infra_errors", "other_verdicts", "left"):
        assert recorded[name] == [], name
    judged = [each["does"] for each in recorded["kernels"]]
    corpus = [each.does for each in KERNELS if not each.is_honest]
    assert sorted([*judged, *recorded["not_judged"]]) == sorted(corpus)
    assert hostile.table(recorded) in (ROOT / "SECURITY.md").read_text("utf-8")
