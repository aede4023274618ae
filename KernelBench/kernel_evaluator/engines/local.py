"""The engine of this machine: one oracle a GPU, or one for the CPU, and a pool that compiles beside them."""

from __future__ import annotations

import json
import math
import os
import queue
import re
import selectors
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from kernel_evaluator.building.builder import Builder, BuildStatus, Built
from kernel_evaluator.machine import main_memory
from kernel_evaluator.machine.devices import visible_devices
from kernel_evaluator.machine.extras import require
from kernel_evaluator.oracle_process import environment_from_json, job_to_json
from kernel_evaluator.problems.jobs import STANDING_BY, Job, Progress, Settings, Verdict, unmeasured_row
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.rows import BUSY_HOST, Environment, Failure, Row, Status
from kernel_evaluator.timing.measurement import BORNE_OUT_SHARE
from kernel_evaluator.timing.suspicions import REFERENCE_SLOWED, UNSTEADY

PREPARATION_S = 600.0
"""Seconds that the oracle may take beyond the candidate's own time: for the reference, warming up."""

HOSTS_FAULTS = (BUSY_HOST, REFERENCE_SLOWED, UNSTEADY)
"""Failures that other guests of a host bring about too: they slow each of its cores for a while, unseen."""

_IMPORTS_TRANSFORMERS = re.compile(r"^\s*(from|import) transformers\b", re.MULTILINE)


def needs_transformers(problem: Problem) -> bool:
    """Whether a problem's models are Hugging Face's: those of level 4 are."""
    return _IMPORTS_TRANSFORMERS.search(problem.source) is not None


class LocalEngine:
    """Judge on this machine's devices. `gpus` are device indices; all of them by default."""

    def __init__(
        self,
        gpus: Sequence[int] | None = None,
        progress: Progress | None = None,
        cache: Path | None = None,
        held: Sequence[int] = (),
    ) -> None:
        """Choose devices and the cache of builds; oracles keep the descriptors `held` open, such as locks."""
        self._gpus = gpus
        self._held = held
        self._progress = progress or (lambda event, facts: None)
        self._cache = cache

    def run(self, jobs: Iterable[Job], settings: Settings) -> Iterator[Verdict]:
        """Judge every job; verdicts come as they are reached. Raises MissingExtraError before the first.

        Jobs may come from a stream that waits for them: devices are ready before the first comes, and stay so
        until it ends.
        """
        require("evaluate", "judging on this machine")
        if isinstance(jobs, Sequence) and any(needs_transformers(job.problem) for job in jobs):
            require("level4", "level 4")
        devices = self._devices(settings)
        memory_gb = main_memory.bound_gb(settings.memory_gb, main_memory.JUDGED_SHARE, len(devices))
        settings = replace(settings, memory_gb=memory_gb)
        work = _Work()
        verdicts: queue.Queue[Verdict | BaseException | None] = queue.Queue()
        with Builder(
            cache_root=self._cache,
            precision=settings.precision,
            timeout_s=settings.build_timeout_s,
        ) as builder:
            attendants = [
                _Attendant(device, cores, work, settings, self._held)
                for device, cores in zip(devices, _shares(len(devices)), strict=True)
            ]
            threads = [
                threading.Thread(target=_serve, args=(attendant, verdicts), daemon=True)
                for attendant in attendants
            ]
            for thread in threads:
                thread.start()
            feeder = threading.Thread(target=self._feed, args=(builder, jobs, work, verdicts), daemon=True)
            feeder.start()
            left = len(devices)
            try:
                while left:
                    verdict = verdicts.get()
                    if isinstance(verdict, BaseException):
                        raise verdict
                    if verdict is None:
                        left -= 1
                    else:
                        yield verdict
            finally:
                work.stop()
                for attendant in attendants:
                    attendant.end_oracle()
                for thread in threads:
                    thread.join(timeout=30)

    def _devices(self, settings: Settings) -> list[str]:
        if settings.device == "cpu":
            return [""]
        visible = list(visible_devices())
        return visible if self._gpus is None else [visible[index] for index in self._gpus]

    def _feed(self, builder: Builder, jobs: Iterable[Job], work: _Work, verdicts: queue.Queue[Any]) -> None:
        """Have all built, and hand jobs on as that is done; a fault of ours is handed on too."""
        try:
            for job in jobs:
                work.expect(1)
                future = builder.submit(job)  # kernels with the same source share a build
                future.add_done_callback(partial(self._hand_on, job, work, verdicts))
        except Exception as error:  # noqa: BLE001 (raised again in the caller's thread)
            verdicts.put(error)
        work.complete()

    def _hand_on(self, job: Job, work: _Work, verdicts: queue.Queue[Any], future: Future[Built]) -> None:
        """Hand a job on once what it needs is built; what does not compile is ruled without a device."""
        if future.cancelled():
            return
        if (error := future.exception()) is not None:
            verdicts.put(error)
            return
        built = future.result()
        if built.status is BuildStatus.FAILED:
            verdicts.put(build_failure(job, built))
            work.expect(-1)
        else:
            self._progress("built", {"key": str(job.key), "cpu_seconds": built.cpu_seconds})
            work.add(job, built.cache)


class _Work:
    """Jobs that are ready, by problem; a device keeps to its problem as long as there are jobs of it."""

    def __init__(self) -> None:
        self._ready: dict[str, deque[tuple[Job, Path | None]]] = {}
        self._later: deque[tuple[Job, Path | None]] = deque()
        self._condition = threading.Condition()
        self._expected = 0
        self._complete = self._stopped = False

    @property
    def is_building(self) -> bool:
        """Whether anything is built now."""
        return self._expected > 0

    @property
    def is_stopped(self) -> bool:
        """Whether no verdict is wanted any more."""
        return self._stopped

    def expect(self, more: int) -> None:
        """Say that so many more jobs are being built, or fewer."""
        with self._condition:
            self._expected += more
            self._condition.notify_all()

    def add(self, job: Job, cache: Path | None) -> None:
        """Offer a job that was expected."""
        with self._condition:
            self._expected -= 1
            if self._stopped:
                return
            self._ready.setdefault(job.problem.sha256, deque()).append((job, cache))
            self._condition.notify_all()

    def add_last(self, job: Job, cache: Path | None) -> None:
        """Offer a job when nothing is built and no other is left."""
        with self._condition:
            if not self._stopped:
                self._later.append((job, cache))
                self._condition.notify_all()

    def complete(self) -> None:
        """Say that no more jobs come."""
        with self._condition:
            self._complete = True
            self._condition.notify_all()

    def stop(self) -> None:
        """Drop what is left."""
        with self._condition:
            self._ready.clear()
            self._later.clear()
            self._complete = self._stopped = True
            self._expected = 0
            self._condition.notify_all()

    def take(self, problem: str, *, wait: bool = True) -> tuple[Job, Path | None] | None:
        """Give a job, of the problem named if there is one; None when none is left, or none ready to hand."""
        with self._condition:
            while not self._ready:
                if self._later and not self.is_building:
                    return self._later.popleft()
                if not wait or (self._complete and not self.is_building):
                    return None
                self._condition.wait()
            chosen = problem if problem in self._ready else next(iter(self._ready))
            jobs = self._ready[chosen]
            job = jobs.popleft()
            if not jobs:
                del self._ready[chosen]
            return job


class OracleProcess:
    """An oracle on one device, spoken to in lines of JSON."""

    def __init__(
        self, device: str, settings: Settings, cores: Sequence[int] = (), held: Sequence[int] = ()
    ) -> None:
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        if device:
            environment["CUDA_VISIBLE_DEVICES"] = device
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kernel_evaluator.oracle_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            pass_fds=held,
            start_new_session=True,  # a terminal's Ctrl-C is ours to act on
        )
        if cores:
            os.sched_setaffinity(self._process.pid, cores)
        self._buffer = b""
        self.send(asdict(settings))

    def send(self, data: dict[str, Any]) -> None:
        """Send one line; a dead oracle is noticed when it should answer."""
        assert self._process.stdin is not None  # noqa: S101 (it was opened as a pipe)
        try:
            self._process.stdin.write(json.dumps(data).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return

    def receive(self, timeout_s: float) -> dict[str, Any] | None:
        """Wait for one line; None where the oracle died or took too long."""
        assert self._process.stdout is not None  # noqa: S101 (it was opened as a pipe)
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(timeout_s):
                    return None
                chunk = os.read(self._process.stdout.fileno(), 1 << 20)
                if not chunk:
                    return None
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        """End the oracle at once, with what it started; who waits for an answer gets none."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self, *, kill: bool = False) -> None:
        """End the oracle and wait for it."""
        assert self._process.stdin is not None  # noqa: S101 (it was opened as a pipe)
        if kill:
            self._process.kill()
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _shares(count: int) -> list[list[int]]:
    """Divide the processor cores among the oracles, so that none launches from another's."""
    cores = sorted(os.sched_getaffinity(0))
    size = len(cores) // count
    return [cores[at * size : (at + 1) * size] for at in range(count)]


def _serve(attendant: _Attendant, verdicts: queue.Queue[Any]) -> None:
    """Keep one device busy until no job is left, then say so with None; a fault of ours is handed on."""
    try:
        for verdict in attendant.verdicts():
            verdicts.put(verdict)
    except Exception as error:  # noqa: BLE001 (raised again in the caller's thread)
        verdicts.put(error)
    verdicts.put(None)


class _Attendant:
    """Feeds one oracle, which knows the next jobs too. A lost oracle is replaced, its job tried twice.

    Builds beside make clocks late. A verdict that hangs on time is reached again when they are done. What the
    host may be to blame for is judged once more at the end.
    """

    def __init__(
        self, device: str, cores: Sequence[int], work: _Work, settings: Settings, held: Sequence[int]
    ) -> None:
        self._device, self._cores, self._work, self._settings = device, cores, work, settings
        self._held_open = held
        self._oracle: OracleProcess | None = None
        self._held: deque[tuple[Job, Path | None]] = deque()
        self._lost: set[str] = set()
        self._put_off: set[str] = set()

    def end_oracle(self) -> None:
        """End the oracle, once work was stopped; for another thread than the one that takes the verdicts."""
        oracle = self._oracle
        if oracle is not None:
            oracle.kill()

    def verdicts(self) -> Iterator[Verdict]:
        """Give verdicts until no job is left."""
        try:
            self._ready_oracle()
            while self._fill():
                oracle = self._ready_oracle()
                is_beside_builds = self._work.is_building
                if self._work.is_stopped:
                    return
                answer = oracle.receive(self._settings.timeout_s + PREPARATION_S)
                if self._work.is_stopped:
                    return
                if answer is None and self._give_up_oracle():
                    continue
                job, cache = self._held.popleft()
                verdict = _verdict(job, answer)
                self._lost.discard(str(job.key))
                if (is_beside_builds and hangs_on_time(verdict.row)) or self._is_put_off(verdict.row):
                    self._work.add_last(job, cache)
                else:
                    self._put_off.discard(str(job.key))
                    yield verdict
        finally:
            left = self._oracle
            if left is not None:
                if self._work.is_stopped:
                    left.kill()
                left.close()  # which `end_oracle` can cut short
                self._oracle = None

    def _is_put_off(self, row: Row) -> bool:
        """Whether the host may be to blame, for the first time."""
        failed = row.failure is not None and row.failure.name in HOSTS_FAULTS
        is_first = failed and str(row.key) not in self._put_off
        if is_first:
            self._put_off.add(str(row.key))
        return is_first

    def _fill(self) -> bool:
        while len(self._held) < 1 + STANDING_BY:  # the one that is judged, and those after it
            problem = self._held[-1][0].problem.sha256 if self._held else ""
            taken = self._work.take(problem, wait=not self._held)
            if taken is None:
                break
            self._held.append(taken)
            if self._oracle is not None:
                self._send(taken)
        return bool(self._held)

    def _ready_oracle(self) -> OracleProcess:
        if self._oracle is None:
            self._oracle = OracleProcess(self._device, self._settings, self._cores, self._held_open)
            for each in self._held:
                self._send(each)
        return self._oracle

    def _give_up_oracle(self) -> bool:
        """End an oracle that died or hangs; say whether its job is tried once more."""
        if self._oracle is not None:
            self._oracle.close(kill=True)
            self._oracle = None
        key = str(self._held[0][0].key)
        again = key not in self._lost
        self._lost.add(key)
        return again

    def _send(self, item: tuple[Job, Path | None]) -> None:
        if self._oracle is not None:
            self._oracle.send(job_to_json(*item))


def hangs_on_time(row: Row) -> bool:
    """Whether a verdict would be another, had clocks or deliveries been less late.

    So it is where a person should look, where work put off was charged, and where the oracle's time counts;
    lateness makes nothing too fast.
    """
    if row.failure is not None and row.failure.name in ("FasterThanPossible", "FasterThanPlausible"):
        return False
    if row.status is Status.QUARANTINED or "deferred-work" in row.labels:
        return True
    if row.runtime_ms is None or row.second_clock_ms is None or row.clock_disagreement is None:
        return False
    counts = math.isclose(row.runtime_ms.median, row.second_clock_ms, rel_tol=1e-3)
    return counts and row.clock_disagreement > BORNE_OUT_SHARE


def _no_device() -> Environment:
    """The environment of a row that no device was needed for."""
    return Environment(device="", gpu="")


def _verdict(job: Job, answer: dict[str, Any] | None) -> Verdict:
    if answer is not None:
        return Verdict(
            row=Row.from_json(answer["row"]), environment=environment_from_json(answer["environment"])
        )
    failure = Failure(name="OracleLost", message="the judging process died or did not answer, twice")
    return Verdict(row=unmeasured_row(job, Status.INFRA_ERROR, failure), environment=_no_device())


def build_failure(job: Job, built: Built) -> Verdict:
    """The verdict on a kernel that does not compile: it needs no device."""
    message = built.message or "the extension does not compile"
    log = built.log.encode("utf-8", "replace").decode("utf-8")  # an error's text may hold half of a pair
    failure = Failure(name="BuildFailed", message=message, log=log)
    return Verdict(row=unmeasured_row(job, Status.COMPILE_ERROR, failure), environment=_no_device())
