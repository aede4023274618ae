"""From one job to one row: load, build, check, time. The verdict is made here, on the oracle's side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import torch

from kernel_evaluator import secret_draws
from kernel_evaluator.candidate.frames import Op
from kernel_evaluator.candidate.processes import RunFailed, RunnerProcess
from kernel_evaluator.judging import elsewhere, trials
from kernel_evaluator.judging.hearing import Hearing, Ruled
from kernel_evaluator.labels import census
from kernel_evaluator.labels.sources import COMPILER
from kernel_evaluator.machine.figures import PLAUSIBLE
from kernel_evaluator.problems.jobs import Job, unmeasured_row
from kernel_evaluator.records.rows import BUSY_HOST, Failure, Row, Status
from kernel_evaluator.stand.stand import Stand
from kernel_evaluator.timing import deals, floor, suspicions, timed_outputs
from kernel_evaluator.timing.deck import Deck
from kernel_evaluator.timing.measurement import Measurement

CENSUS_S = 15.0
TRIES, BUSY_TRIES = 2, 5
"""So often a kernel is timed before something odd is held against it; more often on a busy host."""

_WORK_LEFT = "work of the kernel's still ran on the device after its outputs were delivered"
_OUT_OF_MEMORY = ("OutOfMemoryError", "OutOfMemory", "MemoryError")
_MEMORY_TEXTS = ("not enough memory", "out of memory", "Cannot allocate memory")


class _WrongWhenTimed(Exception):
    """An output of a timed call is wrong; what that means is not said yet."""

    def __init__(self, ruled: Ruled) -> None:
        super().__init__(ruled.message)
        self.ruled = ruled


def judge(
    stand: Stand,
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
    hearing = Hearing(stand=stand, job=job, process=process, quiet=quiet)
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
        trials_asked=stand.settings.trials,
        worst_error=hearing.worst if hearing.passed else None,
        labels=tuple(hearing.labels),
        gpu_seconds=time.monotonic() - started if stand.device.is_gpu else 0.0,
        cpu_seconds=0.0 if stand.device.is_gpu else time.monotonic() - started,
        finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _hear(hearing: Hearing) -> dict[str, Any]:
    stand, settings = hearing.stand, hearing.stand.settings
    hearing.ask(Op.LOAD, source=hearing.job.source, class_name="ModelNew")
    hearing.phase = Status.RUNTIME_ERROR
    hearing.mark("load")
    hearing.side = stand.admit(hearing.process, hearing.left_s())
    hearing.mark("admit")
    _build(hearing)
    hearing.mark("construct")
    trials.plain_trials(hearing)
    hearing.mark("trials")
    off = settings.switched_off
    names = [] if "panel" in off else stand.source.distributions()
    deck = Deck(_shares(stand) if names else {"plain": 1.0})
    if "affine" not in off and stand.weights.are_any:
        if trials.affine_trial(hearing):
            deck.see("upstream")  # that trial had such inputs
        hearing.mark("affine")
    elif names and not hearing.is_slow:
        trials.panel_trial(hearing, "upstream")
        deck.see("upstream")
    found = _measured(hearing, deck) if settings.measure else None
    checks = _checks(deck, names)
    if not hearing.is_slow:
        for distribution in [name for name in names if name not in deck.seen]:
            trials.panel_trial(hearing, distribution)
            checks["panel_passed"] += 1
    hearing.mark("panel")
    values: dict[str, Any] = _verdict(hearing, found) if found else {"status": Status.CORRECT}
    values["checks"] = checks
    # Torch's compiler compiles anew for other shapes: that takes seconds and says nothing of a kernel.
    is_compiled = COMPILER in hearing.job.source
    is_to_look = not ("elsewhere" in off or is_compiled or hearing.is_slow or hearing.process.is_ended)
    if values["status"] is Status.CORRECT and is_to_look:
        label, values["elsewhere"] = elsewhere.look(hearing)
        hearing.labels += [label] if label else []
        hearing.mark("elsewhere")
    return values


def _checks(deck: Deck, names: Sequence[str]) -> dict[str, Any]:
    """What a row says of its inputs once they were timed: kinds that were tried, what calls were dealt."""
    usual = deck.dealt["upstream"] + deck.dealt["plain"]
    return {
        "panel_passed": len(deck.seen & set(names)),
        "panel_asked": len(names),
        "looks_are_relative": "plain" not in deck.dealt,
        "sharp_share": round(1 - usual / deck.dealt.total(), 4) if deck.dealt else 0.0,
    }


def _shares(stand: Stand) -> dict[str, float]:
    """The shares of timed calls, but for what says nothing; upstream's where no other is left."""
    said = {name: share for name, share in stand.deal.shares.items() if not stand.says_nothing(name)}
    return said or {"upstream": 1.0}


def _build(hearing: Hearing) -> None:
    """Build the candidate's model; weights drawn on the device first, on the CPU where that fails."""
    stand = hearing.stand
    if stand.weights.variant != "plain" or stand.weights.drawn_on != "device":
        stand.build_reference("plain", "device")
    try:
        hearing.ask(Op.CONSTRUCT, **stand.weights.construction())
    except RunFailed as error:
        if error.name in ("Timeout", "ProcessDied", "OutOfMemory"):
            raise
        stand.build_reference("plain", "cpu")
        hearing.ask(Op.CONSTRUCT, **stand.weights.construction())
    hearing.alignment = stand.weights.align(hearing.require_side(), hearing.left_s())


def _measured(hearing: Hearing, deck: Deck) -> Measurement:
    """Time both sides, checking outputs of the timed runs; once more where something looks odd.

    Where others keep the host busy it is tried some times more, a charge too, and then nothing is said of the
    kernel.
    """
    clocks_count = "clocks" not in hearing.stand.settings.switched_off
    wrongly_timed: Ruled | None = None
    try:
        with hearing.quiet():
            hearing.mark("quiet")
            for tried in range(1, BUSY_TRIES + 1):
                found = _timed(hearing, deck)
                odd = _WORK_LEFT if found is None else _odd(found) if clocks_count else ""
                is_busy = found is not None and _is_nobodys_fault(found)
                if not odd or (tried >= TRIES and not is_busy):
                    break
    except _WrongWhenTimed as wrong:
        wrongly_timed = wrong.ruled.let_go()
    except timed_outputs.InputsChanged:
        message = "forward changed its inputs in a timed run"
        raise Ruled(Status.REJECTED, trials.INPUT_CHANGED, message, {"violation": "input"}) from None
    if wrongly_timed is not None:
        raise trials.weigh_timed(hearing, wrongly_timed)
    if found is None:
        raise Ruled(Status.QUARANTINED, "WorkLeft", _WORK_LEFT, {"violation": "WorkLeft"})
    if odd and _is_nobodys_fault(found):
        waited = f"the reference waited {found.waited_share:.0%} of its time for a processor"
        message = f"{odd}; {waited}: judge it again when the machine is calmer"
        raise Ruled(Status.INFRA_ERROR, BUSY_HOST, message)
    hearing.mark(f"timing, {len(found.rounds)} rounds in {found.deals} deals of {found.calls}")
    return found


def _odd(found: Measurement) -> str:
    """What would be held against a kernel, and might not on a calmer host; empty where nothing would."""
    if found.suspicion:
        return found.suspicion[1]
    if found.deferred_ms and found.is_busy:
        return f"outputs came late, by {found.deferred_ms:.4f} ms a call"
    return ""


def _is_nobodys_fault(found: Measurement) -> bool:
    """Whether a busy host may be to blame: not for what the candidate's own processes used."""
    return found.is_busy and not (found.suspicion and found.suspicion[0] == suspicions.RAN_WHILE_STOPPED)


def _timed(hearing: Hearing, deck: Deck) -> Measurement | None:
    """A measurement; none where the device was not free to say how late outputs come."""
    verify = _verifier(hearing, deck)
    try:
        found = deals.measure(
            hearing.stand, hearing.require_side(), hearing.left_s, verify, deck, hearing.pace_ms
        )
    except timed_outputs.WorkLeft:
        return None
    hearing.calls += sum(each.calls for each in (*found.rounds, *found.lone))
    if hearing.is_slow:
        looks = sum(each.look is not None for each in found.rounds)
        hearing.passed = min(hearing.passed + looks, hearing.stand.settings.trials)
    # Who was slow in the trials alone is spared nothing.
    hearing.pace_ms = max(found.claimed_ms, found.oracle_ms)
    return found


def _verdict(hearing: Hearing, found: Measurement) -> dict[str, Any]:
    """What the row says of a kernel that was right wherever outputs were compared. May end its process."""
    stand, clocks_count = hearing.stand, "clocks" not in hearing.stand.settings.switched_off
    used_gb = stand.device.used_gb()
    if "census" not in stand.settings.switched_off:
        hearing.labels += _census(hearing)
    if clocks_count and not found.suspicion:
        with hearing.quiet():
            deals.hold_against_alone(stand, hearing.require_side(), found)
    hearing.labels += found.labels
    if stand.deal.blunt:
        hearing.labels.append("blunt")
    values: dict[str, Any] = {
        "status": Status.CORRECT,
        **found.fields(),
        "rounds": found.to_json(),
        "peak_memory_gb": used_gb,
    }
    if found.suspicion and clocks_count:
        name, message = found.suspicion
        values |= {
            "status": Status.QUARANTINED,
            "failure": Failure(name=name, message=message, log=hearing.process.log_tail()),
            "evidence": {"violation": name, **found.evidence()},
        }
    elif "floor" not in stand.settings.switched_off:
        values |= _quarantine_too_fast(hearing, values["runtime_ms"].median, values["speedup"])
    return values


def _quarantine_too_fast(hearing: Hearing, runtime_ms: float, speedup: float) -> dict[str, Any]:
    """What a row says that is faster than the hardware allows or than is plausible; nothing for others."""
    evidence = floor.below(hearing.stand.problem, hearing.stand.settings, runtime_ms)
    if evidence is not None:
        message = f"{runtime_ms:.5f} ms a call, and the device needs {evidence['floor_ms']:.5f} ms at least"
    elif speedup > PLAUSIBLE:
        evidence = {"violation": "FasterThanPlausible", "speedup": speedup, "plausible": PLAUSIBLE}
        message = (
            f"{speedup:.4g} times as fast: no kernel above {PLAUSIBLE:g} counts before a person has looked"
        )
    else:
        return {}
    failure = Failure(name=evidence["violation"], message=message, log=hearing.process.log_tail())
    return {"status": Status.QUARANTINED, "failure": failure, "evidence": evidence}


def _census(hearing: Hearing) -> tuple[str, ...]:
    """Label the candidate by whose kernels it launches; by its source where that cannot be seen."""
    stand = hearing.stand
    if not stand.device.is_gpu or not stand.settings.profile_launches:
        return census.labels_from_source(hearing.job.source)
    stand.inputs.put(0, lambda: stand.source.draw(secret_draws.seed()))
    hearing.require_side().buffers["inputs"].publish()
    stand.device.settle()
    try:
        listed = hearing.process.ask(Op.CENSUS, min(hearing.left_s(), CENSUS_S), at=0, seed=0).text
    except RunFailed:
        return census.labels_from_source(hearing.job.source)
    return census.labels(census.parse(listed))


def _verifier(hearing: Hearing, deck: Deck) -> timed_outputs.Verifier:
    def verify(expected: list[torch.Tensor], found: list[torch.Tensor], facts: dict[str, Any]) -> None:
        deck.see(facts["distribution"])
        if hearing.stand.says_nothing(facts["distribution"], expected):
            deck.drop(facts["distribution"])
            return
        try:
            trials.check_values(hearing, expected, found, facts)
        except Ruled as ruled:
            raise _WrongWhenTimed(ruled) from ruled

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
        if status is Status.OUT_OF_MEMORY:
            hearing.process.end()
            if lacks_room := hearing.stand.lacks_room():
                status, short, message = Status.INFRA_ERROR, "NoRoom", f"{lacks_room}: {message}"
        raise Ruled(status, short, message[:8000]) from error
