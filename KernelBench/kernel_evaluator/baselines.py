"""PyTorch's own times a problem on one GPU: our format, and reading the timing files of KernelBench.

A baseline stands beside results for orientation. It never enters a speedup: those are paired measurements.
Measures nothing and writes no file.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.rows import Environment, board_name

SCHEMA_VERSION = 1

MODES = ("eager", "compiled")
"""Plain PyTorch, and `torch.compile` with its default options."""


@dataclass(frozen=True, kw_only=True)
class BaselineTiming:
    """Milliseconds of one forward call. KernelBench's files know no median: it is None there."""

    mean: float
    std: float
    min: float
    max: float
    n: int
    median: float | None = None

    def __post_init__(self) -> None:
        for name in ("mean", "min", "max"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be positive milliseconds, got {value}")
        if not self.min <= self.mean <= self.max:
            raise ValueError(f"mean must lie in {self.min}-{self.max}, got {self.mean}")

    @property
    def typical(self) -> float:
        """The median where it is known, else the mean."""
        return self.median if self.median is not None else self.mean


@dataclass(frozen=True, kw_only=True)
class ProblemBaseline:
    """The times of one problem; None where a mode was not measured or failed."""

    eager: BaselineTiming | None = None
    compiled: BaselineTiming | None = None


@dataclass(frozen=True, kw_only=True)
class BaselineFile:
    """All baselines of one board, from one source. `measured_here` is false for published figures."""

    gpu: str
    source: str
    measured_here: bool
    environment: Environment
    problems: Mapping[str, ProblemBaseline]
    sizes: str = "full"
    precision: str = "fp32"
    measured_at: str = ""
    schema_version: int = field(default=SCHEMA_VERSION)

    @property
    def name(self) -> str:
        """The file's name without its ending: the GPU's model, and the precision where that is not fp32."""
        return board_name(self.gpu, "full", self.precision)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BaselineFile:
        """Read a file's values; raise ValueError, TypeError or KeyError where one is out of its rule."""
        if data.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(f"schema_version must be {SCHEMA_VERSION}, got {data.get('schema_version')!r}")
        environment = dict(data["environment"])
        environment["isolation"] = tuple(environment.get("isolation", ()))
        problems = {name: _problem(modes) for name, modes in data["problems"].items()}
        return cls(**{**data, "environment": Environment(**environment), "problems": problems})


def dump_baseline(baseline: BaselineFile) -> str:
    """Write the file's text: fields first, one problem a line, a final newline."""
    values = dataclasses.asdict(baseline)
    problems = values.pop("problems")
    environment = {name: value for name, value in values["environment"].items() if value not in ("", ())}
    head = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in {**values, "environment": environment}.items()]
    names = sorted(problems, key=lambda name: [int(part) for part in name.split("_")])
    lines = [f"    {json.dumps(name)}: {json.dumps(_known(problems[name]))}" for name in names]
    body = '  "problems": {\n' + ",\n".join(lines) + "\n  }"
    return "{\n" + ",\n".join([*head, body]) + "\n}\n"


def import_timings(
    eager: Mapping[str, Any] | None, compiled: Mapping[str, Any] | None, problem_set: ProblemSet
) -> tuple[dict[str, ProblemBaseline], list[str]]:
    """Read KernelBench's timing files: names with or without `.py`, null where a run failed.

    Gives the baselines by problem, and the names that the problem set does not know. Raises ValueError
    where a value is no time.
    """
    stems = {(p.level, p.name): f"{p.level}_{p.problem_id}" for p in problem_set}
    found: dict[str, dict[str, BaselineTiming]] = {}
    unknown = []
    for mode, file in (("eager", eager), ("compiled", compiled)):
        for level, name, stats in _entries(file or {}):
            problem = stems.get((level, name))
            if problem is None:
                unknown.append(f"level {level} {name}")
            elif stats is not None:
                found.setdefault(problem, {})[mode] = _timing(stats)
    return {problem: ProblemBaseline(**modes) for problem, modes in found.items()}, unknown


def device_of(*files: Mapping[str, Any] | None) -> str:
    """Give the device that timing files name; raise ValueError unless there is exactly one."""
    devices = {
        str(stats["hardware"])
        for file in files
        for _, _, stats in _entries(file or {})
        if stats is not None and "hardware" in stats
    }
    if len(devices) != 1:
        raise ValueError(f"the files must name one device, got {sorted(devices)}")
    return devices.pop()


def _entries(file: Mapping[str, Any]) -> list[tuple[int, str, Mapping[str, Any] | None]]:
    entries = []
    for level, problems in file.items():
        digits = level.removeprefix("level")
        if not (level.startswith("level") and digits.isdecimal() and isinstance(problems, Mapping)):
            raise ValueError(f"a timing file has keys like level1, got {level!r}")
        entries += [(int(digits), name.removesuffix(".py"), stats) for name, stats in problems.items()]
    return entries


def _timing(stats: Mapping[str, Any]) -> BaselineTiming:
    names = ("mean", "std", "min", "max")
    median = stats.get("median")
    return BaselineTiming(
        **{name: float(stats[name]) for name in names},
        n=int(stats["num_trials"]),
        median=None if median is None else float(median),
    )


def _problem(modes: Mapping[str, Any]) -> ProblemBaseline:
    return ProblemBaseline(**{mode: BaselineTiming(**times) for mode, times in modes.items()})


def _known(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _known(item) if isinstance(item, Mapping) else item
        for name, item in value.items()
        if item is not None
    }
