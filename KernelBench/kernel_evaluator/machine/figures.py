"""What hardware and arithmetic allow: peak rates of GPUs, and the time no kernel can beat.

Reads `figures.json`. The figures flag results for a second look; they never reject one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from kernel_evaluator.records.places import PROBLEM_SET

Precision = Literal["fp32", "fp16", "bf16"]

_MAKERS = ("nvidia", "amd", "instinct", "geforce")
_NOT_MODEL = re.compile(r"(?i)\d+gb|hbm\w*|sxm\d*|graphics|oam")

SLACK = 0.8
"""The share of the counted time that makes the floor, so that an honest kernel stays above it."""


PLAUSIBLE = 100.0
"""A speedup above this waits for a person; the largest of an honest kernel on record is 44."""


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU model: names the driver gives it, memory in TB/s, L2 in MB, dense peaks in TFLOP/s."""

    model: str
    device_names: tuple[str, ...]
    memory_tb_s: float
    l2_mb: float
    peak_tflop_s: Mapping[str, float]
    source: str


@dataclass(frozen=True, kw_only=True)
class ProblemFigures:
    """What one call of a problem at full size needs at least. None where it is not known (level 4)."""

    bytes_read: int
    bytes_written: int
    flops_least: int
    flops: int


@cache
def _table(path: Path = PROBLEM_SET / "figures.json") -> dict[str, Any]:
    table: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return table


@cache
def gpus() -> dict[str, Gpu]:
    """Read the GPU models that boards are kept for."""
    return {
        model: Gpu(**{**facts, "model": model, "device_names": tuple(facts["device_names"])})
        for model, facts in _table()["gpus"].items()
    }


def gpu_model(device_name: str) -> str:
    """Name a device's board: `H100` for `NVIDIA H100 80GB HBM3`; unknown ones keep their own words."""
    for model, gpu in gpus().items():
        if device_name in gpu.device_names:
            return model
    words = [word for word in re.split(r"[\s/]+", device_name) if word.lower() not in _MAKERS]
    return "-".join(word for word in words if not _NOT_MODEL.fullmatch(word)) or device_name


def problem_figures(level: int, problem_id: int) -> ProblemFigures | None:
    """Give the figures of a problem at full size; None where they are not known."""
    facts = _table()["problems"].get(f"{level}_{problem_id}")
    return ProblemFigures(**facts) if facts is not None else None


def floor_ms(level: int, problem_id: int, *, gpu: str, precision: Precision = "fp32") -> float | None:
    """Give the milliseconds that no honest kernel can beat; None where GPU or problem is unknown.

    The larger of two times, with slack: bytes over memory bandwidth, counting only what must be read and
    leaving out what a full L2 cache could hold; and the operations that the cheapest known algorithm needs
    over the dense tensor core peak at half precision, since such a kernel may pass fp32's tolerance.
    """
    machine, figures = gpus().get(gpu), problem_figures(level, problem_id)
    if machine is None or figures is None:
        return None
    share = 1.0 if precision == "fp32" else 0.5
    moved = share * (figures.bytes_read + figures.bytes_written)
    memory_ms = max(0.0, moved - machine.l2_mb * 1e6) / (machine.memory_tb_s * 1e9)
    return SLACK * max(memory_ms, figures.flops_least / (machine.peak_tflop_s["fp16"] * 1e9))
