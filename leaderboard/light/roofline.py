"""The roofline of each problem as it is posed: its nominal arithmetic, its bytes, and a device's peaks.

Reads `KernelBench/roofline.json`, which `kbl problems roofline` makes. For people alone: what judges is the
floor of `kernel_evaluator.machine.figures`, which no honest kernel can beat.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from kernel_evaluator.machine import figures
from kernel_evaluator.records.places import PROBLEM_SET
from kernel_evaluator.records.rows import ResultFile

ROOFLINE = PROBLEM_SET / "roofline.json"

Bound = Literal["memory", "compute"]

ELEMENT_BYTES = {"fp32": 4, "bf16": 2}
"""The bytes of a floating-point element, by the precision of the board."""

FASTEST = "fp16"
"""The arithmetic of light speed, for fp32 too: sums of half-precision products can be exact enough."""

CEILINGS = {"fp32": "fp32", "tf32": "TF32", FASTEST: "half precision"}
"""The rates that a roofline shows: by the name that `figures.json` has for them, in words."""


@dataclass(frozen=True, kw_only=True)
class Posed:
    """What one call of a problem needs as it is posed, at full size.

    `flops` are those of products, convolutions and attention, as torch's counter gives them; `conv_flops` are
    the part in convolutions, which the reference computes in TF32. Floating-point elements and the bytes of
    all else are apart: the precision decides how large the former are. `less` says how a kernel can do with
    less arithmetic than `flops`, where one is known to.
    """

    flops: int
    conv_flops: int
    floats_read: int
    other_bytes_read: int
    floats_written: int
    other_bytes_written: int
    less: str = ""

    def bytes_moved(self, precision: str) -> int:
        """Bytes that must be read and written, each once."""
        floats = ELEMENT_BYTES[precision] * (self.floats_read + self.floats_written)
        return floats + self.other_bytes_read + self.other_bytes_written


@dataclass(frozen=True, kw_only=True)
class Roof:
    """A problem's roofline on a board. Times are in milliseconds.

    `compute_ms` maps each of CEILINGS to the time of the arithmetic at that rate.
    """

    flops: int
    bytes_moved: int
    memory_ms: float
    compute_ms: Mapping[str, float]
    uses_tf32: bool
    less: str

    @property
    def light_ms(self) -> float:
        """The time at light speed: of memory or of the fastest arithmetic, whichever takes longer."""
        return max(self.memory_ms, self.compute_ms[FASTEST])

    @property
    def bound(self) -> Bound:
        """What light speed hangs on."""
        return "memory" if self.memory_ms >= self.compute_ms[FASTEST] else "compute"

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.flops / self.bytes_moved

    def at(self, ceiling: str) -> float:
        """Milliseconds under one of CEILINGS, memory included."""
        return max(self.memory_ms, self.compute_ms[ceiling])

    def share(self, runtime_ms: float) -> float:
        """Say how much of light speed a time reaches."""
        return self.light_ms / runtime_ms

    def tflop_s(self, runtime_ms: float) -> float:
        """Give the rate of the nominal arithmetic in TFLOP/s."""
        return self.flops / (runtime_ms * 1e9)

    def gb_s(self, runtime_ms: float) -> float:
        """Give the rate of the bytes that must move in GB/s."""
        return self.bytes_moved / (runtime_ms * 1e6)

    def skips_arithmetic(self, runtime_ms: float) -> bool:
        """Say whether a time is too short for the nominal arithmetic, so that the kernel did less."""
        return runtime_ms < self.compute_ms[FASTEST]


@cache
def posed() -> dict[str, Posed]:
    """Read what problems need, `"1_23"` to figures; empty where the file is missing."""
    if not ROOFLINE.is_file():
        return {}
    problems = json.loads(ROOFLINE.read_text("utf-8"))["problems"]
    return {key: Posed(**facts) for key, facts in problems.items()}


def roofs_for(result: ResultFile) -> Mapping[str, Roof]:
    """Give the rooflines that a result's rows are held against: of full sizes alone, others have none."""
    return roofs(result.gpu, result.precision) if result.sizes == "full" else {}


@cache
def roofs(gpu: str, precision: str) -> Mapping[str, Roof]:
    """Give the roofline of every problem on a GPU model; empty where its peaks are not known."""
    found = ((key, roof_of(item, gpu, precision)) for key, item in posed().items())
    return {key: roof for key, roof in found if roof is not None}


def roof_of(item: Posed, gpu: str, precision: str) -> Roof | None:
    """Give the roofline of one problem; None where the GPU's peaks are not known."""
    machine = figures.gpus().get(gpu)
    if machine is None:
        return None
    moved = item.bytes_moved(precision)
    return Roof(
        flops=item.flops,
        bytes_moved=moved,
        memory_ms=moved / (machine.memory_tb_s * 1e9),
        compute_ms={name: item.flops / (machine.peak_tflop_s[name] * 1e9) for name in CEILINGS},
        uses_tf32=precision == "fp32" and item.conv_flops > 0,
        less=item.less,
    )
