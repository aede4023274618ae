"""From one job to one row: load, build, check, time. The verdict is made here, on the oracle's side."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import torch

from kernelbench import census, floor, measure, suspicions, timed_outputs, trials
from kernelbench.bench import Bench
from kernelbench.frames import Op
from kernelbench.hearing import Hearing, Ruled
from kernelbench.jobs import Job, unmeasured_row
from kernelbench.measurement import Measurement
from kernelbench.processes import RunFailed, RunnerProcess
from kernelbench.rows import Failure, Row, Status

CENSUS_S = 15.0
_OUT_OF_MEMORY = ("OutOfMemoryError", "OutOfMemory", "MemoryError")
_MEMORY_TEXTS = ("not enough memory", "out of memory", "Cannot allocate memory")


def judge(
    bench: Bench,
    job: Job,
    process: RunnerProcess,
    quiet: Callable[[], AbstractContextManager[None]],
    hear: Callable[[Hearing], dict[str, Any]] | None = None,
) -> Row:
    """Judge a candidate whose process has not loaded it yet. Ending the process is left to the caller.

    While `quiet` lasts, nothing else of ours uses the device: timing happens inside. `hear` are the rules:
    the board's own where left out.
    """
    started = time.monotonic()
    hearing = Hearing(bench=bench, job=job, process=process, quiet=quiet)
    blank = unmeasured_row(job, Status.INFRA_ERROR)
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
    trials.plain_trials(hearing)
    hearing.mark("trials")
    off = settings.switched_off
    names = [] if "panel" in off else bench.source.distributions()
    deck = measure.Deck([name for name in names if name not in bench.skipped])
    if "affine" not in off and bench.table:
        trials.affine_trial(hearing)
        hearing.mark("affine")
        deck.see("upstream")  # that trial had such inputs
    found = _measured(hearing, deck) if settings.measure else None
    for distribution in [name for name in names if name in deck.unseen]:  # timing looks at most
        trials.panel_trial(hearing, distribution)
        deck.see(distribution)
    hearing.mark("panel")
    return _verdict(hearing, found) if found else {"status": Status.CORRECT}


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


def _measured(hearing: Hearing, deck: measure.Deck) -> Measurement:
    """Time both sides, checking outputs of the timed runs; once more where something looks odd."""
    clocks_count = "clocks" not in hearing.bench.settings.switched_off
    try:
        with hearing.quiet():
            hearing.mark("quiet")
            found = _timed(hearing, deck)
            if found is None or (found.suspicion and clocks_count):
                found = _timed(hearing, deck)
    except timed_outputs.InputsChanged:
        message = "forward changed its inputs in a timed run"
        raise Ruled(Status.REJECTED, "InputChanged", message, {"violation": "input"}) from None
    if found is None:
        message = "work of the kernel's still ran on the device after its outputs were delivered"
        raise Ruled(Status.QUARANTINED, "WorkLeft", message, {"violation": "WorkLeft"})
    hearing.mark(f"timing, {len(found.rounds)} rounds in {found.deals} deals of {found.calls}")
    return found


def _timed(hearing: Hearing, deck: measure.Deck) -> Measurement | None:
    """A measurement; none where the device was not free to say how late outputs come."""
    verify = _verifier(hearing, deck)
    try:
        return measure.measure(hearing.bench, hearing.require_side(), hearing.left_s, verify, deck)
    except timed_outputs.WorkLeft:
        return None


def _verdict(hearing: Hearing, found: Measurement) -> dict[str, Any]:
    """What the row says of a kernel that was right wherever outputs were compared. May end its process."""
    bench, clocks_count = hearing.bench, "clocks" not in hearing.bench.settings.switched_off
    values: dict[str, Any] = {
        "status": Status.CORRECT,
        **found.fields(),
        "peak_memory_gb": bench.device_memory_gb(),
    }
    hearing.labels += found.labels
    if "census" not in bench.settings.switched_off:
        hearing.labels += _census(hearing)
    if clocks_count and not found.suspicion:
        with hearing.quiet():
            suspicions.judge_reference(bench, hearing.require_side(), found)
    if found.suspicion and clocks_count:
        name, message = found.suspicion
        values |= {
            "status": Status.QUARANTINED,
            "failure": Failure(name=name, message=message, log=hearing.process.log_tail()),
            "evidence": {"violation": name, **found.evidence()},
        }
    elif "floor" not in bench.settings.switched_off:
        values |= _quarantine_below_floor(hearing, values["runtime_ms"].median)
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


def _verifier(hearing: Hearing, deck: measure.Deck) -> timed_outputs.Verifier:
    def verify(expected: list[torch.Tensor], found: list[torch.Tensor], facts: dict[str, Any]) -> None:
        deck.see(facts["distribution"])
        if trials.skips(hearing.bench, facts["distribution"], expected):
            deck.drop(facts["distribution"])
            return
        try:
            trials.check_values(hearing, expected, found, facts["distribution"], facts)
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
