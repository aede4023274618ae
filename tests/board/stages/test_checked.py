"""What no evaluation can have is refused wherever options are free text: KernelBench's scripts and Inspect's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernel_evaluator.candidate.clocks import METHODS
from kernel_evaluator.problems.inputs import PRECISIONS
from kernel_evaluator.problems.jobs import Settings

from leaderboard.inspect_task import kernelbench
from leaderboard.seed_scripts import eval_from_generations, run_and_check
from leaderboard.stages.checked import CHOICES, checked, problem_source, sizes_on

WRONG: dict[str, tuple[Any, str]] = {
    "num_correct_trials": (0, "num_correct_trials must be 1 or more, got 0"),
    "timeout": (0, "timeout must be above 0 and at most 86400 seconds, got 0.0"),
    "precision": ("fp64", "precision must be one of fp32, fp16, bf16; got 'fp64'"),
    "timing_method": ("stopwatch", "timing_method must be one of cuda_event, host_time, do_bench"),
    "profile": ("quick", "profile must be one of ranked, compat; got 'quick'"),
}


def test_the_choices_are_those_of_the_evaluator() -> None:
    assert (CHOICES["precision"], CHOICES["timing_method"]) == (tuple(PRECISIONS), METHODS)
    settings = Settings()
    assert checked(settings) is settings
    for seconds in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="timeout must be above 0"):
            checked(replace(settings, timeout_s=seconds))


def test_a_gpu_has_full_sizes_and_a_cpu_reduced_ones() -> None:
    assert ("full", "reduced") == (sizes_on("cuda"), sizes_on("cpu"))


def test_a_problem_that_an_editor_began_with_a_byte_order_mark_is_one() -> None:
    source = "from model import Model, get_inputs, get_init_inputs\n"
    assert source == problem_source("\ufeff" + source) == problem_source(source)
    with pytest.raises(ValueError, match=r"must define Model, get_inputs, get_init_inputs; missing: Model$"):
        problem_source("from model import get_inputs, get_init_inputs\n")


@pytest.mark.parametrize("option", WRONG)
def test_a_script_names_what_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    value, said = WRONG[option]
    monkeypatch.chdir(tmp_path)
    (folder := tmp_path / "runs/mine").mkdir(parents=True)
    (folder / "level_1_problem_19_sample_0_kernel.py").write_text("x = 1")
    run = ["run_name=mine", "dataset_src=local", "level=1", "device=cpu", f"{option}={value}"]
    assert 2 == eval_from_generations.main(run)
    assert f"error: {said}" in capsys.readouterr().err
    assert not (folder / "eval_results.json").exists()
    if option not in ("timing_method", "profile"):
        kernel = str(folder / "level_1_problem_19_sample_0_kernel.py")
        one = [
            "ref_origin=kernelbench",
            "level=1",
            "problem_id=19",
            f"kernel_src_path={kernel}",
            "device=cpu",
        ]
        assert 2 == run_and_check.main([*one, f"{option}={value}"])
        assert f"error: {said}" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["num_correct_trials", "timing_method"])
def test_inspects_task_names_what_cannot_be(option: str) -> None:
    value, said = WRONG[option]
    with pytest.raises(ValueError, match=said):
        kernelbench(device="cpu", **{option: value})


@pytest.mark.parametrize(
    ("option", "value", "least"),
    [("p", -1, 0), ("p", float("nan"), 0), ("limit", 0, 1), ("limit", -2, 1), ("max_regenerations", -1, 0)],
)
def test_inspects_task_takes_no_number_below_what_makes_sense(option: str, value: float, least: int) -> None:
    with pytest.raises(
        ValueError, match=f"{option} must be {least} or more, got {json.dumps(value).lower()}"
    ):
        kernelbench(device="cpu", **{option: value})
