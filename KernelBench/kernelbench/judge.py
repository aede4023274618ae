"""From one job to one row: load, build, check, time. The verdict is made here, on the oracle's side."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import torch

from kernelbench import census, compare, floor, measure
from kernelbench.bench import Bench, Side
from kernelbench.frames import Op, Reply
from kernelbench.jobs import Job
from kernelbench.processes import RunFailed, RunnerProcess
from kernelbench.rows import Failure, Row, Status
from kernelbench.version import evaluator_sha256

_log = logging.getLogger(__name__)

CENSUS_S = 15.0
_OUT_OF_MEMORY = ("OutOfMemoryError", "OutOfMemory", "MemoryError")
_MEMORY_TEXTS = ("not enough memory", "out of memory", "Cannot allocate memory")


class Ruled(Exception):
    """A verdict has been reached before the end: a status, what went wrong, and the evidence."""

    def __init__(
        self, status: Status, name: str, message: str, evidence: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.name, self.message, self.evidence = status, name, message, evidence


@dataclass
class Hearing:
    """One candidate before the bench, and what is known of it so far."""

    bench: Bench
    job: Job
    process: RunnerProcess
    quiet: Callable[[], None]
    phase: Status = Status.COMPILE_ERROR
    side: Side | None = None
    alignment: str = ""
    passed: int = 0
    worst: float = 0.0
    labels: list[str] = field(default_factory=list)
    marked: float = field(default_factory=time.monotonic)

    def ask(self, op: Op, **facts: Any) -> Reply:
        """Ask the candidate within what is left of its time."""
        return self.process.ask(op, self.left_s(), **facts)

    def left_s(self) -> float:
        """Seconds the candidate may still let us wait; the oracle's own work does not count."""
        return max(self.bench.settings.timeout_s - self.process.waited_s, 0.01)

    def mark(self, stage: str) -> None:
        """Note for the log how long a stage took."""
        now = time.monotonic()
        _log.debug("%s %s %.3f s", self.job.key, stage, now - self.marked)
        self.marked = now

    def require_side(self) -> Side:
        """The admitted side; our own mistake where there is none yet."""
        if self.side is None:
            raise RuntimeError("the candidate has no buffers yet")
        return self.side


def judge(
    bench: Bench,
    job: Job,
    process: RunnerProcess,
    quiet: Callable[[], None],
    hear: Callable[[Hearing], dict[str, Any]] | None = None,
) -> Row:
    """Judge a candidate whose process has not loaded it yet. Ending the process is left to the caller.

    `quiet` is called before timing and returns once nothing else of ours uses the device. `hear` are the
    rules: the board's own where left out.
    """
    started = time.monotonic()
    hearing = Hearing(bench=bench, job=job, process=process, quiet=quiet)
    blank = Row(
        key=job.key,
        status=Status.INFRA_ERROR,
        kernel_sha256=job.kernel_sha256,
        problem_sha256=job.problem.sha256,
        evaluator_sha256=evaluator_sha256(),
    )
    try:
        with _failures_ruled(hearing):
            row = replace(blank, **(hear or _hear)(hearing))
    except Ruled as ruled:
        failure = Failure(name=ruled.name, message=ruled.message, log=process.log_tail())
        row = replace(blank, status=ruled.status, failure=failure, evidence=ruled.evidence)
    return replace(
        row,
        trials_passed=hearing.passed,
        trials_asked=bench.settings.trials,
        worst_error=hearing.worst if hearing.passed else None,
        labels=tuple(hearing.labels),
        gpu_seconds=time.monotonic() - started if bench.device == "cuda" else 0.0,
        cpu_seconds=0.0 if bench.device == "cuda" else time.monotonic() - started,
        finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _hear(hearing: Hearing) -> dict[str, Any]:
    bench, settings = hearing.bench, hearing.bench.settings
    hearing.ask(Op.LOAD, source=hearing.job.source, class_name="ModelNew")
    hearing.phase = Status.RUNTIME_ERROR
    hearing.mark("load")
    hearing.side = bench.admit(hearing.process, hearing.left_s())
    hearing.mark("admit")
    _build(hearing)
    hearing.mark("construct")
    _try_trials(hearing)
    hearing.mark("trials")
    off = settings.switched_off
    if "panel" not in off:
        for distribution in bench.source.distributions():
            _panel_trial(hearing, distribution)
        hearing.mark("panel")
    if "affine" not in off and bench.table:
        _affine_trial(hearing)
        hearing.mark("affine")
    if not settings.measure:
        return {"status": Status.CORRECT}
    return _measured(hearing)


def _build(hearing: Hearing) -> None:
    """Build the candidate's model; weights drawn on the device first, on the CPU where that fails."""
    bench = hearing.bench
    if bench.variant != "plain" or bench.place != "device":
        bench.build_reference("plain", "device")
    try:
        hearing.ask(Op.CONSTRUCT, **bench.construction())
    except RunFailed as error:
        if error.name in ("Timeout", "ProcessDied", "OutOfMemory"):
            raise
        bench.build_reference("plain", "cpu")
        hearing.ask(Op.CONSTRUCT, **bench.construction())
    hearing.alignment = bench.align(hearing.require_side(), hearing.left_s())


def _try_trials(hearing: Hearing) -> None:
    """The plain trials; a candidate with its own layout of weights may try again with CPU-drawn ones."""
    bench = hearing.bench
    try:
        _plain_trials(hearing)
    except Ruled as ruled:
        if ruled.status is not Status.MISMATCH or hearing.alignment != "unlike" or bench.place == "cpu":
            raise
        bench.build_reference("plain", "cpu")
        hearing.ask(Op.CONSTRUCT, **bench.construction())
        hearing.alignment = bench.align(hearing.require_side(), hearing.left_s())
        try:
            _plain_trials(hearing)
        except Ruled as again:
            again.message += (
                "; its parameters are not named and shaped as the reference's: no weights were copied"
            )
            raise


def _plain_trials(hearing: Hearing) -> None:
    hearing.passed, hearing.worst = 0, 0.0
    failed: Ruled | None = None
    for _ in range(hearing.bench.settings.trials):
        try:
            _trial(hearing, "plain", secrets.randbits(60))
            hearing.passed += 1
        except Ruled as ruled:
            failed = failed or ruled
            if ruled.name != "WrongOutput":
                break
    if failed is not None:
        raise failed


def _panel_trial(hearing: Hearing, distribution: str) -> None:
    bench = hearing.bench
    if distribution in bench.skipped:
        return
    try:
        _trial(hearing, distribution, secrets.randbits(60))
    except Ruled as ruled:
        if ruled.status is Status.MISMATCH:
            raise Ruled(Status.REJECTED, ruled.name, ruled.message, ruled.evidence) from ruled
        raise


def _affine_trial(hearing: Hearing) -> None:
    """One trial with scales that are not one and biases that are not zero."""
    bench = hearing.bench
    bench.build_reference("affine", bench.place)
    hearing.ask(Op.CONSTRUCT, **bench.construction())
    alignment = bench.align(hearing.require_side(), hearing.left_s())
    try:
        _panel_trial(hearing, "upstream")
    except Ruled as ruled:
        if alignment != "unlike" or ruled.name != "WrongOutput":
            raise
        message = (
            f"its parameters are not the reference's by name or order, and with other weights {ruled.message}"
        )
        raise Ruled(Status.QUARANTINED, "WeightsNotShared", message, ruled.evidence) from ruled


def _trial(hearing: Hearing, distribution: str, seed: int) -> None:
    """One forward call of each side on the same fresh inputs."""
    bench, side = hearing.bench, hearing.require_side()
    bench.put(0, lambda: bench.source.draw(seed, distribution))
    call_seed = secrets.randbits(60)
    expected = bench.expect(0, call_seed)
    if distribution not in ("plain", "upstream") and any(compare.has_non_finite(t) for t in expected):
        bench.skipped.add(distribution)
        return
    side.buffers["inputs"].publish()
    bench.settle()
    poison = 0 if "poison" in bench.settings.switched_off else max(bench.output_bytes, 1 << 20)
    reply = hearing.ask(Op.CALL, at=0, seed=call_seed, poison=poison, strict=False)
    facts = {"distribution": distribution, "seed": seed, "call_seed": call_seed}
    facts |= {"weight_seed": bench.weight_seed, "weights": bench.variant, "place": bench.place}
    _check_claims(bench, reply, facts)
    if not bench.mutates and bench.inputs_differ(0):
        raise Ruled(
            Status.REJECTED, "InputChanged", "forward changed its inputs", {"violation": "input", **facts}
        )
    bench.scramble(side)
    hearing.ask(Op.DELIVER, index=0, offsets=bench.output_offsets)
    check_values(hearing, expected, bench.read_outputs(side), distribution, facts)


def check_values(
    hearing: Hearing,
    expected: list[torch.Tensor],
    found: list[torch.Tensor],
    distribution: str,
    facts: dict[str, Any],
) -> None:
    """Compare outputs; where the first tolerance fails, ask what rounding alone does before ruling."""
    bench = hearing.bench
    for at, (right, given) in enumerate(zip(expected, found, strict=True)):
        tolerance = bench.tolerance(right, distribution)
        result = compare.compare(right, given, tolerance)
        scale = 1.0
        if not result.passes:
            kept = [tensor.clone() for tensor in expected]
            snapshot = given.clone()
            scale = max(1.0, compare.FLOOR_FACTOR * bench.floor(distribution))
            result = compare.compare(kept[at], snapshot, replace(tolerance, scale=scale))
        hearing.worst = max(hearing.worst, result.worst)
        if not result.passes:
            evidence = {
                "counter_example": {
                    **facts,
                    "output": at,
                    "index": result.index,
                    "expected": repr(result.expected),
                    "found": repr(result.found),
                    "error_over_tolerance": repr(result.worst),
                    "absolute": tolerance.absolute * scale,
                    "relative": tolerance.relative * scale,
                }
            }
            message = (
                f"output {at} at flat index {result.index}: expected {result.expected:.7g}, "
                f"found {result.found:.7g} ({distribution} inputs, {result.worst:.3g} times the tolerance)"
            )
            raise Ruled(Status.MISMATCH, "WrongOutput", message, evidence)


def _check_claims(bench: Bench, reply: Reply, facts: dict[str, Any]) -> None:
    if "format" in bench.settings.switched_off:
        return
    if reply.text != bench.structure or len(reply.leaves) != len(bench.output_leaves):
        message = f"the output's structure must be {bench.structure}, got {reply.text[:200]}"
        raise Ruled(Status.MISMATCH, "WrongStructure", message)
    for at, (claim, leaf) in enumerate(zip(reply.leaves, bench.output_leaves, strict=True)):
        for rule, want, got in (
            ("is a plain torch.Tensor", True, claim.is_plain_tensor),
            ("shape", leaf.shape, claim.shape),
            ("dtype", leaf.dtype, claim.dtype),
            ("device", leaf.device, claim.device),
            ("has elements that do not overlap", True, claim.is_dense),
        ):
            if want != got:
                message = f"output {at}: {rule} must be {want}, got {got}"
                raise Ruled(Status.MISMATCH, "WrongType", message, {"violation": "type", **facts})


def _measured(hearing: Hearing) -> dict[str, Any]:
    """Time both sides, checking outputs of the timed runs; decide which clock counts."""
    bench, clocks_count = hearing.bench, "clocks" not in hearing.bench.settings.switched_off
    hearing.quiet()
    hearing.mark("quiet")
    try:
        found = measure.measure(bench, hearing.require_side(), hearing.left_s, _verifier(hearing))
        if found.suspicion and clocks_count:
            found = measure.measure(bench, hearing.require_side(), hearing.left_s, _verifier(hearing))
    except measure.InputsChanged:
        message = "forward changed its inputs in a timed run"
        raise Ruled(Status.REJECTED, "InputChanged", message, {"violation": "input"}) from None
    hearing.mark(f"timing, {len(found.rounds)} rounds of {found.calls}")
    hearing.labels += found.labels
    values: dict[str, Any] = {
        "status": Status.CORRECT,
        **found.fields(),
        "peak_memory_gb": bench.device_memory_gb(),
    }
    if found.suspicion and "clocks" not in bench.settings.switched_off:
        name, message = found.suspicion
        values |= {
            "status": Status.QUARANTINED,
            "failure": Failure(name=name, message=message, log=hearing.process.log_tail()),
            "evidence": {"violation": name, **found.evidence()},
        }
    elif "floor" not in bench.settings.switched_off:
        values |= _quarantine_below_floor(hearing, values["runtime_ms"].median)
    if "census" not in bench.settings.switched_off:
        hearing.labels += _census(hearing)
    return values


def _quarantine_below_floor(hearing: Hearing, runtime_ms: float) -> dict[str, Any]:
    """What a row says that is faster than the hardware allows; nothing for all others."""
    evidence = floor.below(hearing.bench.problem, hearing.bench.settings, runtime_ms)
    if evidence is None:
        return {}
    message = f"{runtime_ms:.5f} ms a call, and the device needs {evidence['floor_ms']:.5f} ms at least"
    failure = Failure(name="FasterThanPossible", message=message, log=hearing.process.log_tail())
    return {"status": Status.QUARANTINED, "failure": failure, "evidence": evidence}


def _census(hearing: Hearing) -> tuple[str, ...]:
    """Label the candidate by whose kernels it launches; by its source where that cannot be seen."""
    bench = hearing.bench
    if bench.device != "cuda" or not bench.settings.profile_launches:
        return census.labels_from_source(hearing.job.source)
    bench.put(0, lambda: bench.source.draw(secrets.randbits(60)))
    hearing.require_side().buffers["inputs"].publish()
    bench.settle()
    try:
        listed = hearing.process.ask(Op.CENSUS, min(hearing.left_s(), CENSUS_S), at=0, seed=0).text
    except RunFailed:
        return census.labels_from_source(hearing.job.source)
    return census.labels(census.parse(listed))


def _verifier(hearing: Hearing) -> measure.Verifier:
    def verify(expected: list[torch.Tensor], found: list[torch.Tensor], facts: dict[str, Any]) -> None:
        try:
            check_values(hearing, expected, found, facts["distribution"], facts)
        except Ruled as ruled:
            message = f"an output of a timed run is wrong: {ruled.message}"
            raise Ruled(Status.REJECTED, "WrongTimedOutput", message, ruled.evidence) from ruled

    return verify


@contextmanager
def _failures_ruled(hearing: Hearing) -> Iterator[None]:
    """Turn what the candidate's process did wrong into a status."""
    try:
        yield
    except RunFailed as error:
        short = error.name.rpartition(".")[2]
        if error.name == "Timeout":
            status = Status.TIMEOUT
        elif short in _OUT_OF_MEMORY or any(text in error.message for text in _MEMORY_TEXTS):
            status = Status.OUT_OF_MEMORY
        elif error.name == "ProtocolViolation":
            evidence = {"violation": "protocol", "message": error.message}
            raise Ruled(Status.REJECTED, error.name, error.message, evidence) from error
        elif error.name == "ProcessDied":
            status = Status.RUNTIME_ERROR
        else:
            status = hearing.phase
        message = f"{error.message}{error.trail and chr(10) + error.trail}"
        raise Ruled(status, short, message[:8000]) from error
