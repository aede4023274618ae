"""Which device an evaluation takes, and for which board it judges there."""

from __future__ import annotations

import pytest

from leaderboard.stages import engines
from leaderboard.stages.engines import EvaluationError, chosen_device, gpu_of, made_for_gpus, open_place

H100, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"


def machine_of(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(engines, "visible_devices", lambda: {str(at): name for at, name in enumerate(names)})


def test_a_gpu_is_taken_where_there_is_one_or_one_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    machine_of(monkeypatch)
    assert ("cpu", "cuda", "cuda") == (
        chosen_device("auto"),
        chosen_device("cuda"),
        chosen_device("auto", "ray"),
    )
    machine_of(monkeypatch, H200)
    assert ("cuda", "cpu", "cuda") == (
        chosen_device("auto"),
        chosen_device("cpu"),
        chosen_device("auto", gpus=[0]),
    )
    with pytest.raises(EvaluationError, match="--gpus 0 and --device cpu exclude each other"):
        chosen_device("cpu", gpus=[0])
    with pytest.raises(EvaluationError, match="must be auto, cuda or cpu, got 'gpu'"):
        chosen_device("gpu")


def test_a_machine_judges_for_the_board_of_its_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    machine_of(monkeypatch, H100, H200, H200)
    assert ("CPU", "H200", "H100") == (gpu_of("cpu"), gpu_of("cuda", [1, 2]), gpu_of("cuda", [0]))
    with pytest.raises(EvaluationError, match=r"one GPU model is needed, found \['H100', 'H200'\]"):
        gpu_of("cuda")
    with pytest.raises(EvaluationError, match=r"--gpus must be indices below 3, got \[0, 3\]"):
        gpu_of("cuda", [3, 0])
    machine_of(monkeypatch)
    with pytest.raises(EvaluationError, match="no GPU found; choose --device cpu"):
        gpu_of("cuda")


def test_kernels_that_no_cpu_can_run_are_counted_by_what_they_are_written_in() -> None:
    inline = (
        "from torch.utils.cpp_extension import load_inline\nm = load_inline(name='m', cpp_sources='{}')\n"
    )
    sources = [
        "import triton\n",
        "import torch\n",
        inline.format(""),
        inline.format("__global__ void f() {}"),
    ]
    assert {"triton": 1, "load_inline": 1} == made_for_gpus(sources)


def test_an_engine_that_nobody_knows_is_named_with_those_there_are() -> None:
    known = list(engines.ENGINES)  # other tests may have added theirs
    assert ["local", "modal", "ray"] == known[:3]
    with pytest.raises(EvaluationError, match=f"--engine must be one of {', '.join(known)}, got 'slurm'"):
        open_place("slurm", "cpu")
