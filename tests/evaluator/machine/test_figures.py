"""What hardware allows, held against times that were really measured."""

from pathlib import Path

import pytest
from kernel_evaluator.machine.figures import floor_ms, gpu_model, gpus, problem_figures
from kernel_evaluator.problems.problem_set import ProblemSet

from leaderboard.files.baseline_files import read_baseline

PUBLISHED = Path(__file__).parents[3] / "baselines" / "published" / "times"


@pytest.mark.parametrize("gpu", ["H100", "H100-PCIe"])
def test_no_published_time_is_below_the_floor(gpu):
    for name, times in read_baseline(PUBLISHED / f"{gpu}.json").problems.items():
        level, problem_id = map(int, name.split("_"))
        floor = floor_ms(level, problem_id, gpu=gpu)
        assert floor is not None
        assert floor < min(times.eager.min, times.compiled.min), name


def test_a_kernel_bound_by_memory_can_come_near_its_floor():
    relu = read_baseline(PUBLISHED / "H100.json").problems["1_19"]
    assert floor_ms(1, 19, gpu="H100") > 0.6 * relu.eager.mean


def test_every_problem_of_levels_1_to_3_has_figures_and_level_4_none():
    for problem in ProblemSet():
        known = problem_figures(problem.level, problem.problem_id)
        assert (known is None) == (problem.level == 4)
        assert known is None or (known.bytes_written > 0 and known.flops_least <= known.flops)


def test_inputs_that_need_not_be_read_do_not_raise_the_floor():
    assert problem_figures(1, 23).bytes_read == 0
    assert problem_figures(1, 15).bytes_read == pytest.approx(problem_figures(1, 1).bytes_read / 2)


def test_half_precision_halves_the_bytes_and_a_faster_memory_the_time():
    full, half = (floor_ms(1, 19, gpu="H200", precision=p) for p in ("fp32", "fp16"))
    assert half == pytest.approx(full / 2, rel=0.02)
    ratio = floor_ms(1, 19, gpu="H100") / full
    assert ratio == pytest.approx(4.8 / 3.35)


def test_what_is_not_known_has_no_floor():
    assert floor_ms(1, 19, gpu="CPU") is None
    assert floor_ms(4, 1, gpu="H100") is None


def test_device_names_lead_to_boards_and_variants_stay_apart():
    assert gpu_model("NVIDIA H100 80GB HBM3") == "H100"
    assert gpu_model("NVIDIA H100 PCIe") == "H100-PCIe"
    assert gpu_model("NVIDIA H100 NVL") == "H100-NVL"
    assert gpu_model("NVIDIA H200") == "H200"


def test_every_gpu_names_the_source_of_its_figures():
    assert all(gpu.source and gpu.peak_tflop_s["fp32"] < gpu.peak_tflop_s["fp16"] for gpu in gpus().values())
