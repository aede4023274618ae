"""The benchmark epoch: all of the remote image that can change a time, pinned in one place, and its price.

A new epoch is a new image with new baselines: bump EPOCH whenever a pinned line below changes.
"""

from __future__ import annotations

from dataclasses import dataclass

EPOCH = "2026.11"

BASE_IMAGE = "nvidia/cuda:13.0.1-devel-ubuntu24.04"
PYTHON = "3.12"
UV = "0.13.9"
SYSTEM_PACKAGES = ("g++-13", "git")
PACKAGES = (
    "torch==2.13.0",
    "triton==3.7.1",
    "numpy==2.4.6",
    "ninja==1.13.2",
    "einops==0.8.2",
    "transformers==5.23.0",
    "nvidia-cutlass-dsl[cu13]==4.8.1",
    "tilelang==0.1.15",
)
GPU = "H100"

MAX_GPUS = 10
"""Containers with a GPU at once."""
MAX_BUILDERS = 32
"""Containers that compile at once."""
KERNELS_PER_CALL = 8
"""Kernels of one submission that share a container: its start is paid once, a lost one costs these."""
ROUNDS = 3
"""How often a kernel is sent before it is an infrastructure error; alone from the second time on."""

START_UP_S = 30.0
SECONDS_PER_KERNEL = 6.0
"""Both guessed high, for the estimate alone; the bill is counted."""
MAX_USD = 60.0
"""An evaluation of one level whose estimate is higher is not started."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """Dollars for a second of one GPU, with the day it was looked up and where."""

    usd_per_second: float
    as_of: str
    source: str


_PRICES = {
    ("modal", "H100"): Price(usd_per_second=0.001097, as_of="2026-11-21", source="https://modal.com/pricing"),
}


def price_of(engine: str, gpu: str) -> Price | None:
    """Give the price of a GPU on an engine; None where nobody sends a bill."""
    return _PRICES.get((engine, gpu))


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What an evaluation is expected to use; dollars are None where there is no price."""

    kernels: int
    calls: int
    gpu_seconds: float
    usd: float | None


def estimate(kernels: int, engine: str = "modal", gpu: str = GPU) -> Estimate:
    """Estimate the cost of judging that many kernels, before anything is started."""
    calls = -(-kernels // KERNELS_PER_CALL)
    gpu_seconds = kernels * SECONDS_PER_KERNEL + calls * START_UP_S
    price = price_of(engine, gpu)
    usd = None if price is None else gpu_seconds * price.usd_per_second
    return Estimate(kernels=kernels, calls=calls, gpu_seconds=gpu_seconds, usd=usd)
