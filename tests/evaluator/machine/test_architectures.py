"""Vendors, architectures and dialects, for NVIDIA and AMD alike. No AMD device takes part: this is the logic alone."""

import json
from pathlib import Path

import pytest
from kernel_evaluator.labels.sources import Backend, recognise
from kernel_evaluator.machine.architectures import (
    GPU_ARCHITECTURES,
    Vendor,
    architecture_setting,
    architecture_vendor,
    check_backend,
    device_vendor,
)
from kernel_evaluator.machine.devices import amd_names, visible_devices
from kernel_evaluator.machine.figures import gpu_model

from leaderboard.prompts import EXAMPLES, HARDWARE_TOML, backends, read_toml


@pytest.mark.parametrize(
    ("names", "variable", "value"),
    [
        (["Hopper"], "TORCH_CUDA_ARCH_LIST", "Hopper"),
        (["Ada", "Hopper"], "TORCH_CUDA_ARCH_LIST", "Ada;Hopper"),
        (["gfx942"], "PYTORCH_ROCM_ARCH", "gfx942"),
        (["gfx942", "gfx950"], "PYTORCH_ROCM_ARCH", "gfx942;gfx950"),
    ],
)
def test_architectures_set_the_variable_that_the_builder_reads(names, variable, value):
    setting = architecture_setting(names)
    assert (variable, value) == (setting.variable, setting.value)


@pytest.mark.parametrize("names", [["Hopper", "gfx942"], ["gfx90a-no"], [], ["hopper"]])
def test_mixed_unknown_and_no_architectures_are_refused(names):
    with pytest.raises(ValueError, match="gpu_arch must"):
        architecture_setting(names)


@pytest.mark.parametrize("device", ["AMD Instinct MI300X OAM", "AMD Radeon PRO W7900", "Instinct MI250X"])
def test_an_amd_device_is_known_by_its_driver_s_name(device):
    assert Vendor.AMD is device_vendor(device)


@pytest.mark.parametrize("device", ["NVIDIA H100 80GB HBM3", "NVIDIA GeForce RTX 4090", "Tesla T4"])
def test_an_nvidia_device_is_known_by_its_driver_s_name(device):
    assert Vendor.NVIDIA is device_vendor(device)


def test_every_device_with_hardware_facts_has_an_architecture_of_its_vendor():
    assert set(read_toml(HARDWARE_TOML)["gpus"]) == set(GPU_ARCHITECTURES)
    assert Vendor.AMD is architecture_vendor(GPU_ARCHITECTURES["MI300X"])


def test_a_backend_says_why_a_device_or_a_precision_is_not_for_it():
    assert "" == check_backend("hip", Vendor.AMD, "fp32")
    assert "AMD" in check_backend("cuda", Vendor.AMD)
    assert "NVIDIA" in check_backend("hip", Vendor.NVIDIA)
    assert "bf16" in check_backend("thunderkittens", Vendor.NVIDIA, "fp32")
    assert "must be one of" in check_backend("fortran", Vendor.NVIDIA)


BACKENDS = {"cuda": Backend.LOAD_INLINE}
"""What the evaluator calls a backend of the prompts, where it has another word."""


@pytest.mark.parametrize("backend", backends())
def test_the_examples_of_a_backend_are_recognised_by_the_evaluator(backend):
    for path in sorted(Path(EXAMPLES / backend).glob("*.py")):
        assert BACKENDS.get(backend, backend) in recognise(path.read_text()).backends


AMD_SMI = [{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X", "vendor_id": "0x1002"}}] * 2
AMD_SMI_WRAPPED = {"gpu_data": AMD_SMI}
ROCM_SMI = {
    "card0": {"Card Series": "AMD Instinct MI300X OAM", "Card Model": "0x74a1"},
    "card1": {"Card Series": "AMD Instinct MI325X", "Card Model": "0x74a5"},
}


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        (json.dumps(AMD_SMI), ["AMD Instinct MI300X"] * 2),
        (json.dumps(AMD_SMI_WRAPPED), ["AMD Instinct MI300X"] * 2),
        (json.dumps(ROCM_SMI), ["AMD Instinct MI300X OAM", "AMD Instinct MI325X"]),
        ("WARNING: no GPU", []),
        ("[]", []),
    ],
)
def test_amd_s_tools_name_its_devices(answer, names):
    assert names == amd_names(answer)


def test_a_machine_with_amd_s_tool_alone_has_its_devices(tmp_path, monkeypatch):
    tool = tmp_path / "rocm-smi"
    tool.write_text(f"#!/bin/sh\necho '{json.dumps(ROCM_SMI)}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert {"0": "AMD Instinct MI300X OAM", "1": "AMD Instinct MI325X"} == visible_devices()
    assert {Vendor.AMD} == {device_vendor(name) for name in visible_devices().values()}


def test_a_machine_without_any_tool_has_no_devices(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert {} == visible_devices()


@pytest.mark.parametrize(
    ("device", "model"), [("AMD Instinct MI300X OAM", "MI300X"), ("AMD Instinct MI355X", "MI355X")]
)
def test_a_board_of_an_amd_device_is_named_by_its_model(device, model):
    assert model == gpu_model(device)
