"""What an evaluation says about one kernel, and the file that holds it. Pure records; no torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from kernel_evaluator.records.keys import KernelKey

SCHEMA_VERSION = 1

BUSY_HOST = "BusyHost"
"""The failure of a row that the machine, not the kernel, is to blame for: others kept its processors busy."""

Sizes = Literal["full", "reduced"]
Profile = Literal["ranked", "compat"]

BF16 = "bf16"
BOARD_PRECISIONS = ("fp32", BF16)
"""The precisions that boards are kept for: of inputs, weights and outputs."""


class Status(StrEnum):
    """How the evaluation of one kernel ended.

    `fragile` is right in the trials and wrong on other inputs or with other weights. `rejected` is what no
    honest kernel does: it answers otherwise when it is timed, changes its inputs, or breaks the protocol.
    """

    CORRECT = "correct"
    MISMATCH = "mismatch"
    FRAGILE = "fragile"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    REJECTED = "rejected"
    QUARANTINED = "quarantined"
    INFRA_ERROR = "infra_error"


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Milliseconds of one forward call, over `n` timed batches, at full precision."""

    median: float
    mean: float
    std: float
    min: float
    max: float
    n: int


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What went wrong, for a person: an error's name, its message, and the end of the kernel's log."""

    name: str
    message: str
    log: str = ""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Where rows were measured. Rows of different environments are comparable only within a GPU model."""

    device: str
    gpu: str
    driver: str = ""
    cuda: str = ""
    torch: str = ""
    triton: str = ""
    python: str = ""
    image: str = ""
    host: str = ""
    isolation: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Row:
    """The verdict on one kernel.

    `worst_error` is the largest error found, as a share of the tolerance (1.0 is the limit).
    `runtime_ms` and `reference_ms` are milliseconds a call, measured in interleaved batches;
    `speedup` is reference over candidate. A timing without a correct status cannot be built. All of these
    figures follow from `rounds`, as `timing.measurement` writes them; rows from before there was it lack it.
    Where a speedup counts, `second` is what another evaluation gave: when, at what cost, and its rounds; the
    figures are then those of the slower one. `elsewhere` says how a correct kernel did on inputs of other
    shapes and strides: each to what came of it. `checks`: so many kinds of inputs of the panel were tried,
    and what share of the timed calls had inputs that tell shortcuts.
    """

    key: KernelKey
    status: Status
    kernel_sha256: str
    problem_sha256: str
    evaluator_sha256: str
    environment: str = ""
    trials_passed: int = 0
    trials_asked: int = 0
    worst_error: float | None = None
    runtime_ms: Timing | None = None
    reference_ms: Timing | None = None
    speedup: float | None = None
    speedup_ci95: tuple[float, float] | None = None
    second_clock_ms: float | None = None
    clock_disagreement: float | None = None
    rounds: Mapping[str, Any] | None = None
    second: Mapping[str, Any] | None = None
    labels: tuple[str, ...] = ()
    failure: Failure | None = None
    evidence: Mapping[str, Any] | None = None
    elsewhere: Mapping[str, str] | None = None
    checks: Mapping[str, Any] | None = None
    gpu_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_gb: float | None = None
    finished_at: str = ""

    def __post_init__(self) -> None:
        timed = self.speedup is not None
        if timed and self.status not in (Status.CORRECT, Status.QUARANTINED):
            raise ValueError(f"a {self.status} row must not carry a speedup, got {self.speedup}")
        if timed and (self.runtime_ms is None or self.reference_ms is None or self.speedup_ci95 is None):
            raise ValueError("a speedup needs runtime_ms, reference_ms and speedup_ci95")
        if self.status in (Status.FRAGILE, Status.REJECTED, Status.QUARANTINED) and not self.evidence:
            raise ValueError(f"a {self.status} row must carry evidence")

    @property
    def is_correct(self) -> bool:
        """Whether the kernel counts as correct in every rate."""
        return self.status is Status.CORRECT

    def to_json(self) -> dict[str, Any]:
        """Give the row as plain JSON values, without the fields that say nothing."""
        values = {
            name: value for name, value in dataclasses.asdict(self).items() if value not in (None, (), "")
        }
        return {**values, "key": str(self.key), "status": self.status.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Row:
        """Read a row; raise ValueError or TypeError where a field is unknown or out of its rule."""
        values = dict(data)
        values["key"] = KernelKey.parse(values["key"])
        values["status"] = _present_status(values)
        for name in ("runtime_ms", "reference_ms"):
            if values.get(name) is not None:
                values[name] = Timing(**values[name])
        if values.get("failure") is not None:
            values["failure"] = Failure(**values["failure"])
        if values.get("speedup_ci95") is not None:
            low, high = values["speedup_ci95"]
            values["speedup_ci95"] = (low, high)
        values["labels"] = tuple(values.get("labels", ()))
        return cls(**values)


def _present_status(row: Mapping[str, Any]) -> Status:
    """The status as it is called now: rows older than `fragile` say `rejected` of such kernels."""
    status, evidence = Status(row["status"]), row.get("evidence") or {}
    example = evidence.get("counter_example")
    if status is not Status.REJECTED or example is None or "asked_again" in evidence:
        return status
    was_timed = (row.get("failure") or {}).get("name") == "WrongTimedOutput"
    is_usual = example.get("distribution") in ("plain", "upstream")
    return status if was_timed and is_usual else Status.FRAGILE


@dataclass(frozen=True, kw_only=True)
class ResultFile:
    """Everything measured for one entry on one GPU model; rows sorted by key, one row a key."""

    entry: str
    submission_sha256: str
    gpu: str
    sizes: Sizes
    profile: Profile
    evaluator_version: str
    started_at: str
    finished_at: str
    environments: Mapping[str, Environment]
    rows: tuple[Row, ...]
    precision: str = "fp32"
    revision: int = 1
    reason: str = "first evaluation"
    gpu_seconds: float = 0.0
    cpu_seconds: float = 0.0
    schema_version: int = field(default=SCHEMA_VERSION)

    def __post_init__(self) -> None:
        keys = [row.key for row in self.rows]
        if keys != sorted(set(keys)):
            raise ValueError("rows must be sorted by key, one row a key")
        unknown = {row.environment for row in self.rows} - set(self.environments)
        if unknown:
            raise ValueError(f"rows name environments that the file lacks: {sorted(unknown)}")

    @property
    def board(self) -> str:
        """The board the file belongs to: GPU model and precision, with reduced sizes kept apart."""
        return board_name(self.gpu, self.sizes, self.precision)

    def to_json(self) -> dict[str, Any]:
        """Give the file as plain JSON values."""
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        values["environments"] = {name: dataclasses.asdict(env) for name, env in self.environments.items()}
        values["rows"] = [row.to_json() for row in self.rows]
        if self.precision == "fp32":  # which files say nothing of
            del values["precision"]
        return values

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ResultFile:
        """Read a file; raise ValueError or TypeError where a field is unknown or out of its rule."""
        if data.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(f"schema_version must be {SCHEMA_VERSION}, got {data.get('schema_version')!r}")
        values = dict(data)
        values["environments"] = {
            name: Environment(**{**env, "isolation": tuple(env.get("isolation", ()))})
            for name, env in values["environments"].items()
        }
        values["rows"] = tuple(Row.from_json(row) for row in values["rows"])
        return cls(**values)


def board_name(gpu: str, sizes: Sizes, precision: str = "fp32") -> str:
    """Name the board: `H200`, `H100-bf16` or `CPU-reduced`; neither precisions nor sizes ever meet on one."""
    apart = [name for name in (precision, sizes) if name not in ("fp32", "full")]
    return "-".join([gpu, *apart])
