"""Which GPUs a command takes, and what it says where there are none: a stand-in answers for the driver's tool."""

import signal

import pytest
from kernel_evaluator.engines.local import LocalEngine
from kernel_evaluator.machine.devices import visible_devices
from kernel_evaluator.problems.jobs import Settings
from typer.testing import CliRunner

from leaderboard.cli import app
from leaderboard.serve.places import devices_of, place_of
from leaderboard.stages.engines import EvaluationError, visible_gpus


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        (None, ["0", "1", "2"]),
        ("2,0", ["2", "0"]),
        ("", []),
        ("-1", []),
        ("1,7,0", ["1"]),
        ("GPU-b, 0", ["GPU-b", "0"]),
        ("MIG-b", []),
    ],
)
def test_only_devices_that_the_environment_leaves_are_there(tmp_path, monkeypatch, visible, names):
    with_gpus(tmp_path, monkeypatch, *("NVIDIA H200",) * 3, visible=visible)
    assert dict.fromkeys(names, "NVIDIA H200") == visible_devices()
    assert names == LocalEngine()._devices(Settings(device="cuda"))
    assert len(names) == len(visible_gpus())


def test_an_index_counts_among_the_devices_that_are_left(tmp_path, monkeypatch):
    with_gpus(tmp_path, monkeypatch, "NVIDIA H200", "NVIDIA H100 PCIe", visible="1")
    assert ["NVIDIA H100 PCIe"] == visible_gpus([0])
    assert ["1"] == LocalEngine(gpus=[0])._devices(Settings(device="cuda"))
    with pytest.raises(EvaluationError, match=r"--gpus must be indices below 1, got \[1\]"):
        visible_gpus([1])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["serve", "--device", "cuda"], "no GPU found; choose --device cpu"),
        (["serve", "--gpus", "7"], "--gpus must be indices below 0, got [7]"),
        (["serve", "--gpus", "1,01"], "--gpus must name each GPU once, got '1,01'"),
        (["serve", "--gpus", "0", "--device", "cpu"], "--gpus 0 and --device cpu exclude each other"),
        (["baseline", "measure", "--gpus", "0", "--device", "cpu"], "exclude each other"),
        (["baseline", "measure", "--device", "cuda"], "no GPU found; choose --device cpu"),
        (["audit", "none.json", "--device", "gpu"], "'gpu' is not one of"),
    ],
)
def test_a_device_that_is_not_there_is_said_before_anything_starts(tmp_path, monkeypatch, command, message):
    with_gpus(tmp_path, monkeypatch)
    ended = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
    assert ended.exit_code == 2
    assert message in ended.output


def test_a_server_judges_on_one_model_and_remembers_by_that(tmp_path, monkeypatch):
    with_gpus(tmp_path, monkeypatch, "NVIDIA H200", "NVIDIA H100 PCIe")
    with pytest.raises(EvaluationError, match=r"one GPU model is needed, found \['H100-PCIe', 'H200'\]"):
        devices_of("local", "cuda", None)
    assert ["gpu1"] == [device.name for device in devices_of("local", "cuda", [1])]
    assert place_of("local", "cuda", [0]) != place_of("local", "cuda", [1])


def test_a_server_does_not_start_before_a_cluster_that_cannot_be_joined(monkeypatch):
    pytest.importorskip("ray", reason="ray is not installed: pip install '.[ray]'")
    monkeypatch.setenv("RAY_ADDRESS", "nonsense")
    stopping = signal.getsignal(signal.SIGTERM)
    with pytest.raises(EvaluationError, match=r"no Ray cluster can be joined .* name one by RAY_ADDRESS"):
        devices_of("ray", "cpu", None)
    assert stopping is signal.getsignal(signal.SIGTERM), "Ray ends with a status of its own"


def test_a_server_knows_a_cluster_again_by_the_model_that_is_asked_for(monkeypatch):
    monkeypatch.delenv("KERNELBENCH_RAY_GPU", raising=False)
    assert place_of("ray", "cuda") != place_of("ray", "cuda"), "it may have another model by then"
    monkeypatch.setenv("KERNELBENCH_RAY_GPU", "H100")
    assert place_of("ray", "cuda") == place_of("ray", "cuda")


def with_gpus(folder, monkeypatch, *names, visible=None):
    """Put an nvidia-smi of these GPUs on the path; their UUIDs end in a, b, and so on."""
    lines = "\n".join(f"{name}, GPU-{letter}1" for name, letter in zip(names, "abc", strict=False))
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\necho '{lines}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
