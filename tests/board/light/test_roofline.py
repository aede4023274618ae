"""Light speed: the counted figures against torch's counter and against arithmetic by hand, and records below it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_evaluator.machine import figures
from kernel_evaluator.problems.problem_set import Problem, ProblemSet
from kernel_evaluator.records.places import PROBLEM_SET
from typer.testing import CliRunner

from leaderboard.cli import app
from leaderboard.files.store import read_result, recorded_results
from leaderboard.light.count import LESS, count
from leaderboard.light.roofline import ROOFLINE, posed, roof_of, roofs, roofs_for
from leaderboard.stages.categories import family

PROBLEMS = {f"{p.level}_{p.problem_id}": p for p in ProblemSet(PROBLEM_SET) if p.level < 4}

BY_HAND = {
    # a product of matrices: 2 m n k operations
    "1_1": (2 * 4096**3, 4 * 3 * 4096**2),
    "1_9": (2 * 32768**2 * 32, 4 * (2 * 32768 * 32 + 32768**2)),
    # softmax: nothing that counts as arithmetic, each element read and written
    "1_23": (0, 4 * 2 * 4096 * 393216),
    # a convolution: 2 b c_out c_in taps places, with its weight and bias
    "1_50": (
        2 * 256 * 96 * 3 * 11**2 * 55**2,
        4 * (256 * 3 * 224**2 + 96 * 3 * 11**2 + 96 + 256 * 96 * 55**2),
    ),
    "1_54": (2 * 16 * 64 * 3 * 3**3 * 62**3, 4 * (16 * 3 * 64**3 + 64 * 3 * 3**3 + 16 * 64 * 62**3)),
    "1_67": (
        2 * 32 * 128 * 64 * 3 * 131070,
        4 * (32 * 64 * 131072 + 128 * 64 * 3 + 32 * 128 * 131070),
    ),
    # attention: two products a head
    "1_97": (2 * 2 * 32 * 32 * 512 * 512 * 1024, 4 * 4 * 32 * 32 * 512 * 1024),
    "2_66": (2 * 128 * 16384**2, 4 * (2 * 128 * 16384 + 16384**2 + 16384)),
    "2_76": (2 * 1024 * 8192**2, 4 * (2 * 1024 * 8192 + 8192**2 + 8192)),
    "3_1": (
        2 * 128 * (2 * 16384**2 + 16384 * 8192),
        4 * (128 * (16384 + 8192) + 2 * 16384**2 + 16384 * 8192 + 2 * 16384 + 8192),
    ),
}


def test_all_250_problems_have_a_roofline() -> None:
    assert set(posed()) == set(PROBLEMS)
    assert len(PROBLEMS) == 250


@pytest.mark.parametrize("problem", BY_HAND)
def test_the_figures_are_those_of_a_hand(problem: str) -> None:
    item = posed()[problem]
    assert (item.flops, item.bytes_moved("fp32")) == BY_HAND[problem]
    assert item.bytes_moved("bf16") == BY_HAND[problem][1] / 2


def test_whole_numbers_read_and_written_have_the_same_bytes_in_both_precisions() -> None:
    indices, targets = 8 * 128 * 4095, 8 * 32768
    floats = {"1_51": 128 * 4096 * 4095, "1_95": 32768 * 4096 + 1}
    for precision, size in (("fp32", 4), ("bf16", 2)):
        assert posed()["1_51"].bytes_moved(precision) == size * floats["1_51"] + indices
        assert posed()["1_95"].bytes_moved(precision) == size * floats["1_95"] + targets


def is_quick(problem: Problem) -> bool:
    """Loops over time steps take seconds each to walk through."""
    return problem.level < 3 or family(problem.level, problem.name) != "recurrent"


def test_the_file_holds_what_torchs_counter_gives() -> None:
    known = posed()
    counted = {key: count(problem) for key, problem in PROBLEMS.items() if is_quick(problem)}
    assert len(counted) > 230
    assert {key: item for key, item in counted.items() if item != known[key]} == {}


def test_a_command_writes_the_file_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "roofline.json"
    copy.write_bytes(ROOFLINE.read_bytes())
    monkeypatch.setattr("leaderboard.light.roofline.ROOFLINE", copy)
    ended = CliRunner().invoke(app, ["problems", "roofline", "--only", "2/76", "--write"])
    assert ended.exit_code == 0, ended.output
    assert "2/76: 137.4 GFLOP, 0.3356 GB, 0.139 ms at light speed on the H100, compute-bound" in ended.output
    assert json.loads(copy.read_text()) == json.loads(ROOFLINE.read_text())


def test_a_gpu_whose_light_speed_is_not_known_is_refused() -> None:
    ended = CliRunner().invoke(app, ["problems", "roofline", "--only", "2/76", "--gpu", "H1000"])
    assert ended.exit_code == 2
    assert "--gpu must be one of" in ended.stderr and "H100, " in ended.stderr


def test_no_recorded_kernel_is_beyond_light_unless_it_is_known_how(repository: Path) -> None:
    beyond, looked_at = {}, 0
    for result in recorded_results(repository / "data"):
        known = roofs_for(result)
        for row in result.rows:
            problem = f"{row.key.level}_{row.key.problem_id}"
            if row.is_correct and row.runtime_ms and problem in known:
                looked_at += 1
                roof, time = known[problem], row.runtime_ms.median
                if roof.share(time) > 1 and not (roof.skips_arithmetic(time) and roof.less):
                    beyond[result.entry, problem] = roof.share(time)
    assert looked_at > 900
    assert beyond == {}


def test_what_is_said_to_need_less_is_marked_in_the_file() -> None:
    assert {key: item.less for key, item in posed().items() if item.less} == dict(LESS)


def test_the_larger_of_both_times_is_light_speed_and_says_what_binds() -> None:
    h100 = figures.gpus()["H100"]
    compute, memory = roofs("H100", "fp32")["2_76"], roofs("H100", "fp32")["1_23"]
    assert compute.bound == "compute"
    assert compute.light_ms == pytest.approx(2 * 1024 * 8192**2 / 989e12 * 1e3)
    assert compute.at("fp32") == pytest.approx(compute.light_ms * 989 / h100.peak_tflop_s["fp32"])
    assert memory.bound == "memory"
    assert memory.light_ms == pytest.approx(4 * 2 * 4096 * 393216 / 3.35e12 * 1e3)
    assert compute.tflop_s(0.139) == pytest.approx(989, rel=0.01)
    assert memory.gb_s(memory.light_ms) == pytest.approx(3350)
    assert memory.share(2 * memory.light_ms) == pytest.approx(0.5)


def test_a_board_of_half_precision_moves_half_the_bytes() -> None:
    full, half = roofs("H100", "fp32")["1_23"], roofs("H100", "bf16")["1_23"]
    assert half.bytes_moved == full.bytes_moved / 2


def test_a_device_without_known_peaks_has_no_roofline() -> None:
    assert roof_of(posed()["1_1"], "CPU", "fp32") is None
    assert roofs("CPU", "fp32") == {}


def test_what_ran_at_reduced_sizes_has_no_roofline(repository: Path) -> None:
    full = read_result(repository / "data/results/H100/first-light.json")
    assert (250, 0) == (len(roofs_for(full)), len(roofs_for(replace(full, sizes="reduced"))))


def test_tf32_is_what_the_reference_uses_for_convolutions_on_the_board_of_fp32() -> None:
    full, half = roofs("H100", "fp32"), roofs("H100", "bf16")
    assert [True, False, False] == [roof.uses_tf32 for roof in (full["1_50"], full["2_76"], half["1_50"])]
    assert full["2_76"].intensity == full["2_76"].flops / full["2_76"].bytes_moved
