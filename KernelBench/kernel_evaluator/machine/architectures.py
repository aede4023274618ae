"""GPU vendors, architectures and source dialects as KernelBench names them. Tables and text, no device.

The AMD half is logic that tests cover; it has not yet run on AMD hardware.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Vendor(StrEnum):
    """Who made the device."""

    NVIDIA = "NVIDIA"
    AMD = "AMD"


NVIDIA_ARCHITECTURES = ("Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Hopper", "Ada", "Blackwell")
COMPUTE_CAPABILITIES = (
    *("5.0", "5.2", "5.3", "6.0", "6.1", "6.2", "7.0", "7.2", "7.5", "8.0", "8.6", "8.7", "8.9"),
    *("9.0", "9.0a", "10.0", "10.0a", "10.3", "10.3a", "11.0", "11.0a", "12.0", "12.0a", "12.1", "12.1a"),
)
"""What torch builds extensions for, beside the names of architectures; `a` is for such a GPU alone."""
AMD_ARCHITECTURES = ("gfx942", "gfx950")

GPU_ARCHITECTURES: Mapping[str, str] = {
    "T4": "Turing",
    "A10G": "Ampere",
    "A100": "Ampere",
    "A100-80GB": "Ampere",
    "L4": "Ada",
    "L40S": "Ada",
    "H100": "Hopper",
    "H200": "Hopper",
    "B200": "Blackwell",
    "MI300X": "gfx942",
    "MI325X": "gfx942",
    "MI350X": "gfx950",
    "MI355X": "gfx950",
}
"""The architecture of each device that the tools know by name."""

BACKEND_VENDORS: Mapping[str, tuple[Vendor, ...]] = {
    "cuda": (Vendor.NVIDIA,),
    "hip": (Vendor.AMD,),
    "triton": (Vendor.NVIDIA, Vendor.AMD),
    "gluon": (Vendor.NVIDIA, Vendor.AMD),
    "helion": (Vendor.NVIDIA, Vendor.AMD),
    "cutile": (Vendor.NVIDIA,),
    "tilelang": (Vendor.NVIDIA, Vendor.AMD),
    "cute": (Vendor.NVIDIA,),
    "cutlass": (Vendor.NVIDIA,),
    "thunderkittens": (Vendor.NVIDIA,),
    "mathdx": (Vendor.NVIDIA,),
    "tvm-ffi": (Vendor.NVIDIA,),
}
"""Whose devices a backend runs on."""

BACKEND_PRECISIONS: Mapping[str, tuple[str, ...]] = {
    "tilelang": ("fp16", "bf16"),
    "thunderkittens": ("bf16",),
}
"""Backends that KernelBench runs in these precisions only; the first is the default. Others take any."""


@dataclass(frozen=True, kw_only=True)
class ArchitectureSetting:
    """What a build needs to know of the target: an environment variable and its value."""

    vendor: Vendor
    variable: str
    value: str


def architecture_setting(names: Sequence[str]) -> ArchitectureSetting:
    """Turn architecture names into the variable that torch's extension builder reads.

    Raises ValueError for an unknown name, for no name, and for names of two vendors.
    """
    known = (*NVIDIA_ARCHITECTURES, *AMD_ARCHITECTURES)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(f"gpu_arch must be some of {', '.join(known)}; got {list(names)}")
    vendors = {architecture_vendor(name) for name in names}
    if len(vendors) > 1:
        raise ValueError(f"gpu_arch must not mix NVIDIA and AMD architectures, got {list(names)}")
    vendor = vendors.pop()
    variable = "TORCH_CUDA_ARCH_LIST" if vendor is Vendor.NVIDIA else "PYTORCH_ROCM_ARCH"
    return ArchitectureSetting(vendor=vendor, variable=variable, value=";".join(names))


def require_cuda_targets(text: str) -> None:
    """Raise ValueError where a list such as `9.0a` or `8.0;9.0+PTX` names what no build is for.

    torch refuses it too, but as the fault of each kernel.
    """
    known = (*COMPUTE_CAPABILITIES, *NVIDIA_ARCHITECTURES)
    named = text.replace(" ", ";").split(";")
    if not all(
        each in NVIDIA_ARCHITECTURES or each.removesuffix("+PTX") in COMPUTE_CAPABILITIES for each in named
    ):
        raise ValueError(f"must be one of {', '.join(known)}, or some with ; between, got {text[:80]!r}")


def architecture_vendor(name: str) -> Vendor:
    """Say whose architecture it is; names such as gfx942 are AMD's."""
    return Vendor.AMD if name.startswith("gfx") else Vendor.NVIDIA


def device_vendor(device_name: str) -> Vendor:
    """Say who made a device from the name its driver gives, such as `AMD Instinct MI300X`."""
    is_amd = re.search(r"\bAMD\b|\bInstinct\b|\bRadeon\b|\bMI\d{3}", device_name, re.IGNORECASE)
    return Vendor.AMD if is_amd else Vendor.NVIDIA


def check_backend(backend: str, vendor: Vendor, precision: str | None = None) -> str:
    """Give why a backend cannot run on a vendor's device in a precision; nothing where it can."""
    vendors = BACKEND_VENDORS.get(backend)
    if vendors is None:
        return f"backend must be one of {', '.join(BACKEND_VENDORS)}; got {backend!r}"
    if vendor not in vendors:
        return f"{backend} kernels run on {' and '.join(vendors)} devices, not on {vendor}'s"
    allowed = BACKEND_PRECISIONS.get(backend)
    if precision and allowed and precision not in allowed:
        return f"{backend} kernels are judged in {' or '.join(allowed)}, not in {precision}"
    return ""
