"""What copies scatter by: the statistics that were tried, and the processes that were compared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from kernel_evaluator.timing import pairing
from kernel_evaluator.timing.measurement import Measurement

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import scatter  # noqa: E402


def measured(*speedups: float) -> Measurement:
    rounds = [
        pairing.Round(
            reference_ms=each,
            candidate_ms=1.0,
            candidate_wall_ms=2.0,
            overhead_ms=1.0,
            calls=1,
            reference_first=at % 2 == 0,
        )
        for at, each in enumerate(speedups)
    ]
    return Measurement(calls=2, reference_calls=2, rounds=rounds)


def test_every_way_says_what_equal_rounds_say_and_the_mean_alone_follows_a_stray_one() -> None:
    same, strayed = measured(*[1.02] * 12), measured(*[1.0] * 11, 2.0)
    assert set(scatter.ways([same]).values()) == {(1, 0)}
    off = {name for name, counts in scatter.ways([strayed]).items() if counts != (0, 0)}
    assert off == {"the mean"}


def test_more_rounds_leave_fewer_off_where_the_interval_is_wide_and_as_many_where_it_is_narrow() -> None:
    wide, narrow = measured(*[0.9, 0.95, 1.0, 1.05, 1.1] * 4), measured(*[0.998, 1.0, 1.002] * 6)
    assert set(scatter.more_rounds([narrow]).values()) == {(0.0, 0.0)}
    off = [one for one, _ in scatter.more_rounds([wide]).values()]
    assert off == sorted(off, reverse=True)
    assert off[0] > 2 * off[-1]


def test_the_median_of_the_rounds_ratios_is_off_less_often_than_any_other_way_that_was_tried() -> None:
    found = scatter.ways(list(scatter.evaluations()))
    assert min(found, key=lambda name: found[name][0]) == "the median"
    assert min(found, key=lambda name: found[name][1]) == "the median"


def test_each_process_has_its_turns_with_every_build(tmp_path: Path) -> None:
    out = tmp_path / "processes.json"
    command = [sys.executable, str(ROOT / "benchmarks/scatter.py"), "processes", "--device", "cpu"]
    done = subprocess.run(
        [*command, "--problems", "1/19", "--out", str(out)],
        check=False,
        capture_output=True,
        text=True,
        timeout=280,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    turns = json.loads(out.read_text())["processes"]
    assert {(each["process"], each["build"]) for each in turns} == {
        (p, b) for p in range(6) for b in range(2)
    }
    assert len(turns) == 6 * 2 * scatter.TURNS
    assert all(each["ms"] > 0 for each in turns)
