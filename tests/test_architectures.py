"""Vendors, architectures and dialects, for NVIDIA and AMD alike. No AMD device takes part: this is the logic alone."""

from pathlib import Path

import pytest
from kernelbench.architectures import (
    GPU_ARCHITECTURES,
    Vendor,
    architecture_setting,
    architecture_vendor,
    check_backend,
    device_vendor,
    recognise_backend,
)

from leaderboard.prompts import EXAMPLES, backends, gpu_names


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
    assert set(gpu_names()) == set(GPU_ARCHITECTURES)
    assert Vendor.AMD is architecture_vendor(GPU_ARCHITECTURES["MI300X"])


def test_a_backend_says_why_a_device_or_a_precision_is_not_for_it():
    assert "" == check_backend("hip", Vendor.AMD, "fp32")
    assert "AMD" in check_backend("cuda", Vendor.AMD)
    assert "NVIDIA" in check_backend("hip", Vendor.NVIDIA)
    assert "bf16" in check_backend("thunderkittens", Vendor.NVIDIA, "fp32")
    assert "must be one of" in check_backend("fortran", Vendor.NVIDIA)


@pytest.mark.parametrize("backend", backends())
def test_the_examples_of_a_backend_are_recognised_as_its_own(backend):
    for path in sorted(Path(EXAMPLES / backend).glob("*.py")):
        assert backend == recognise_backend(path.read_text())


def test_plain_torch_is_recognised_as_such():
    assert "torch" == recognise_backend((EXAMPLES / "reference" / "add.py").read_text())
