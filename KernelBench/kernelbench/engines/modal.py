"""The engine `modal`: many remote GPUs at once. Reads what they answer as hostile input, counts the cost.

A kernel's failure is a row and final. What is sent again is what the machinery failed at: a lost container, a
device of the wrong kind, an answer that was refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kernelbench.engines import epoch
from kernelbench.engines.remote_build import Packed, read_builds
from kernelbench.engines.wire import Answer, RefusedAnswerError, pack_request, read_answer
from kernelbench.figures import gpus
from kernelbench.jobs import Job, Progress, Settings, Verdict, unmeasured_row
from kernelbench.keys import KernelKey
from kernelbench.rows import Environment, Failure, Row, Status
from kernelbench.sources import recognise

Call = Callable[[str], object]
"""Sends a request and gives its answer; raises whatever the platform raises."""


@dataclass(frozen=True, kw_only=True)
class Remote:
    """The two remote functions: one compiles without a GPU, one judges."""

    build: Call
    judge: Call


Group = tuple[Job, ...]

Fault = tuple[str, str]
"""The name and the words of what kept a kernel from being judged."""


class ModalEngine:
    """Judges on Modal's GPUs, as many at once as the epoch allows."""

    def __init__(self, *, progress: Progress | None = None, max_usd: float = epoch.MAX_USD) -> None:
        self._progress: Progress = progress or _silent
        self._max_usd = max_usd

    def run(self, jobs: Sequence[Job], settings: Settings) -> Iterator[Verdict]:
        """Judge every job; yields verdicts as containers answer. What stays unanswered is `infra_error`."""
        expected = epoch.estimate(len(jobs))
        self._progress("estimate", {**expected.__dict__, "max_usd": self._max_usd})
        if expected.usd is not None and expected.usd > self._max_usd:
            words = f"the estimate of ${expected.usd:.2f} is above the cap of ${self._max_usd:.2f}"
            yield from (_infra(job, ("too_costly", words)) for job in jobs)
            return
        meter = _Meter()
        try:
            with _remote() as remote, _Builds(remote.build, jobs, settings) as builds:
                yield from self._rounds(jobs, settings, _Sender(remote.judge, settings, meter, builds))
        finally:
            self._progress("bill", meter.bill())

    def _rounds(self, jobs: Sequence[Job], settings: Settings, sender: _Sender) -> Iterator[Verdict]:
        left = {job.key: job for job in jobs}
        faults: dict[KernelKey, Fault] = {}
        for turn in range(epoch.ROUNDS):
            for group, answer in sender.send(_groups(list(left.values()), alone=turn > 0)):
                settled = _settled(answer)
                faults.update(_faults(group, answer))
                for verdict in settled:
                    del left[verdict.row.key]
                yield from settled
            if not left:
                return
            name, words = faults[next(iter(left))]
            self._progress("again", {"kernels": len(left), "reason": f"{name}: {words}"})
        yield from (_infra(job, faults[key]) for key, job in left.items())


class _Builds:
    """Compiles ahead what needs compiling, on as many containers as the epoch allows. A context manager."""

    def __init__(self, call: Call, jobs: Sequence[Job], settings: Settings) -> None:
        self._call = call
        self._settings = settings
        self._pool = ThreadPoolExecutor(max_workers=epoch.MAX_BUILDERS, thread_name_prefix="modal-build")
        needed = {job.kernel_sha256: job for job in jobs if recognise(job.source).needs_build}
        self._builds = {digest: self._pool.submit(self._build, job) for digest, job in needed.items()}

    def __enter__(self) -> _Builds:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def of(self, group: Group) -> dict[str, Packed]:
        """Wait for the builds of these kernels; what could not be built in advance is left out."""
        waited = [self._builds[job.kernel_sha256] for job in group if job.kernel_sha256 in self._builds]
        return {name: files for future in waited for name, files in future.result().items()}

    def _build(self, job: Job) -> dict[str, Packed]:
        try:
            return read_builds(self._call(pack_request([job], self._settings)))
        except Exception:  # noqa: BLE001 - a build in advance saves time only: without it the GPU's container builds
            return {}


class _Sender:
    """Sends groups of kernels to as many containers at once as the epoch allows."""

    def __init__(self, call: Call, settings: Settings, meter: _Meter, builds: _Builds) -> None:
        self._call = call
        self._settings = settings
        self._meter = meter
        self._builds = builds

    def send(self, groups: Sequence[Group]) -> Iterator[tuple[Group, Answer | Fault]]:
        """Give every group with its answer, or with what went wrong, as they come."""
        pool = ThreadPoolExecutor(max_workers=epoch.MAX_GPUS, thread_name_prefix="modal")
        try:
            waiting = {pool.submit(self._ask, group): group for group in groups}
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, group: Group) -> Answer | Fault:
        try:
            text = self._call(pack_request(group, self._settings, self._builds.of(group)))
        except Exception as error:  # noqa: BLE001 - the platform raises a lost container's own exception too
            self._meter.count(0.0)
            return "lost_container", f"{type(error).__name__}: {error}"[:300]
        try:
            answer = read_answer(text, group, epoch.GPU)
        except RefusedAnswerError as error:
            self._meter.count(0.0)
            return "refused_answer", str(error)
        self._meter.count(answer.seconds)
        return ("container_fault", answer.fault) if answer.fault else answer


class _Meter:
    """Counts calls and the seconds that containers say they were busy."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy_s = 0.0
        self._calls = 0

    def count(self, busy_s: float) -> None:
        """Add one call."""
        with self._lock:
            self._calls += 1
            self._busy_s += busy_s

    def bill(self) -> dict[str, Any]:
        """Give calls, seconds and dollars; every call's start is charged at the epoch's guess."""
        price = epoch.price_of("modal", epoch.GPU)
        seconds = self._busy_s + self._calls * epoch.START_UP_S
        usd = None if price is None else seconds * price.usd_per_second
        return {
            "calls": self._calls,
            "busy_seconds": self._busy_s,
            "seconds_with_starts": seconds,
            "usd": usd,
        }


@contextmanager
def _remote() -> Iterator[Remote]:
    """Start the app for as long as the context lasts, with the guard on everything that comes back."""
    from kernelbench.engines.modal_app import app, build_kernels, judge_kernels
    from kernelbench.engines.modal_guard import only_text_results

    # Nothing switches Modal's output on: what containers print would come into the runner's log raw.
    with only_text_results(), app.run():
        yield Remote(build=build_kernels.remote, judge=judge_kernels.remote)


def _groups(jobs: Sequence[Job], *, alone: bool) -> list[Group]:
    size = 1 if alone else epoch.KERNELS_PER_CALL
    return [tuple(jobs[start : start + size]) for start in range(0, len(jobs), size)]


def _settled(answer: Answer | Fault) -> list[Verdict]:
    if not isinstance(answer, Answer):
        return []
    return [verdict for verdict in answer.verdicts if verdict.row.status is not Status.INFRA_ERROR]


def _faults(group: Group, answer: Answer | Fault) -> dict[KernelKey, Fault]:
    if not isinstance(answer, Answer):
        return {job.key: answer for job in group}
    rows = [verdict.row for verdict in answer.verdicts]
    return {row.key: _words(row) for row in rows if row.status is Status.INFRA_ERROR}


def _infra(job: Job, fault: Fault) -> Verdict:
    """Give the row of a kernel that nothing judged, in the environment where it should have been."""
    name, words = fault
    row = unmeasured_row(job, Status.INFRA_ERROR, Failure(name=name, message=words))
    device = gpus()[epoch.GPU].device_names[0]
    return Verdict(
        row=row, environment=Environment(device=device, gpu=epoch.GPU, image=f"epoch-{epoch.EPOCH}")
    )


def _words(row: Row) -> Fault:
    return (row.failure.name, row.failure.message) if row.failure else ("infra_error", "")


def _silent(_name: str, _facts: dict[str, Any]) -> None:
    return
