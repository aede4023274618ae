"""The engine `modal`: many remote GPUs at once. Reads what they answer as hostile input, counts the cost.

A kernel's failure is a row and final. What is sent again is what the machinery failed at: a lost container, a
device of the wrong kind, an answer that was refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kernel_evaluator.engines import epoch
from kernel_evaluator.engines.meter import Meter, OverTheCapError
from kernel_evaluator.engines.remote_build import Packed, read_builds
from kernel_evaluator.engines.wire import (
    MAX_REQUEST_BYTES,
    Answer,
    RefusedAnswerError,
    pack_request,
    read_answer,
)
from kernel_evaluator.labels.sources import recognise
from kernel_evaluator.machine.figures import gpus
from kernel_evaluator.problems.jobs import Job, Progress, Settings, Verdict, unmeasured_row
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Environment, Failure, Row, Status

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
    """Judges on Modal's GPUs, as many at once as the epoch allows, until `max_usd` are nearly spent."""

    def __init__(
        self,
        *,
        progress: Progress | None = None,
        max_usd: float = epoch.MAX_USD,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if why := epoch.unserved("modal", epoch.GPU):
            raise ValueError(why)
        self._progress: Progress = progress or _silent
        self._meter = Meter(epoch.price_of("modal", epoch.GPU), max_usd, clock)

    def run(self, jobs: Sequence[Job], settings: Settings) -> Iterator[Verdict]:
        """Judge every job; yields verdicts as containers answer. What stays unanswered is `infra_error`."""
        meter = self._meter  # one cap holds for all that the engine is asked for
        left = {job.key: job for job in jobs}
        faults: dict[KernelKey, Fault] = {}
        try:
            meter.check()
            with _remote() as remote, _Builds(remote.build, jobs, settings, meter) as builds:
                sender = _Sender(remote.judge, settings, meter, builds, self._progress)
                yield from self._rounds(left, faults, sender)
        except OverTheCapError as error:
            stopped = "stopped_at_the_cap", str(error)
            faults = dict.fromkeys(left, stopped)
        finally:  # with all containers told to stop
            self._progress("bill", meter.bill())
        yield from (_infra(job, faults[key]) for key, job in left.items())

    def _rounds(
        self, left: dict[KernelKey, Job], faults: dict[KernelKey, Fault], sender: _Sender
    ) -> Iterator[Verdict]:
        """Take kernels out of `left` as they are judged; note in `faults` what kept the others from it."""
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


class _Builds:
    """Compiles ahead what needs compiling, on as many containers as the epoch allows. A context manager."""

    def __init__(self, call: Call, jobs: Sequence[Job], settings: Settings, meter: Meter) -> None:
        self._call = call
        self._settings = settings
        self._meter = meter
        self._pool = ThreadPoolExecutor(max_workers=epoch.MAX_BUILDERS, thread_name_prefix="modal-build")
        needed = {_what_is_built(job): job for job in jobs if recognise(job.source).is_built_ahead}
        self._builds = {what: self._pool.submit(self._build, job) for what, job in needed.items()}

    def __enter__(self) -> _Builds:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def of(self, group: Group) -> dict[str, Packed]:
        """Wait for the builds of these kernels; what could not be built in advance is left out."""
        found: dict[str, Packed] = {}
        for what in map(_what_is_built, group):
            if what in self._builds:
                found.update(self._builds[what].result())
        return found

    def _build(self, job: Job) -> dict[str, Packed]:
        try:
            with self._meter.building():
                answer = self._call(pack_request([job], self._settings))
            return read_builds(answer)
        except Exception:  # noqa: BLE001 - a build in advance saves time only: without it the GPU's container builds
            return {}


class _Sender:
    """Sends groups of kernels to as many containers as the epoch allows, and watches what that costs."""

    def __init__(
        self, call: Call, settings: Settings, meter: Meter, builds: _Builds, progress: Progress
    ) -> None:
        self._call = call
        self._settings = settings
        self._meter = meter
        self._builds = builds
        self._progress = progress

    def send(self, groups: Sequence[Group]) -> Iterator[tuple[Group, Answer | Fault]]:
        """Give every group with its answer, or with what went wrong, as they come.

        Raises OverTheCapError as soon as the money would not last until the next look.
        """
        pool = ThreadPoolExecutor(max_workers=epoch.MAX_GPUS, thread_name_prefix="modal")
        try:
            waiting = {pool.submit(self._ask, group) for group in groups}
            while waiting:
                done, waiting = wait(waiting, timeout=epoch.LOOK_S, return_when=FIRST_COMPLETED)
                for future in done:
                    yield from future.result()
                self._progress("spent", self._meter.bill())
                self._meter.check()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, group: Group) -> list[tuple[Group, Answer | Fault]]:
        """Ask for a group, in as many requests as its builds need."""
        requests = _requests(group, self._settings, self._builds)
        return [(part, self._answer(part, text)) for part, text in requests]

    def _answer(self, group: Group, request: str) -> Answer | Fault:
        try:
            with self._meter.judging():
                text = self._call(request)
        except OverTheCapError as error:
            return "stopped_at_the_cap", str(error)
        except Exception as error:  # noqa: BLE001 - the platform raises a lost container's own exception too
            return "lost_container", f"{type(error).__name__}: {error}"[:300]
        try:
            answer = read_answer(text, group, epoch.GPU)
        except RefusedAnswerError as error:
            return "refused_answer", str(error)
        return ("container_fault", answer.fault) if answer.fault else answer


def _what_is_built(job: Job) -> tuple[str, str]:
    """What a build hangs on: the kernel, and the problem, on whose inputs it may have to be called."""
    return job.kernel_sha256, job.problem.sha256


def _requests(group: Group, settings: Settings, builds: _Builds) -> Iterator[tuple[Group, str]]:
    """Part a group so that each request travels whole.

    A larger one would have to be fetched by the container, which has no network. A single kernel whose build
    is too large is sent without it.
    """
    text = pack_request(group, settings, builds.of(group))
    if len(text) <= MAX_REQUEST_BYTES:
        yield group, text
    elif len(group) == 1:
        yield group, pack_request(group, settings)
    else:
        middle = len(group) // 2
        for half in (group[:middle], group[middle:]):
            yield from _requests(half, settings, builds)


@contextmanager
def _remote() -> Iterator[Remote]:
    """Start the app for as long as the context lasts, with the guard on everything that comes back."""
    from kernel_evaluator.engines.modal_app import app, build_kernels, judge_kernels
    from kernel_evaluator.engines.modal_guard import only_text_results

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
