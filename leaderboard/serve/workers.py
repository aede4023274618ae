"""Threads that keep the devices busy: each takes batches and has a process judge them that stays ready.

A device keeps a process for each of the settings that were asked for last; one of them is at work at a time.
What a batch leaves without a verdict, however its process fails, is tried again, each judgement alone; what
is left once more gets `infra_error`. What a candidate does to its own process is the engine's business and
ends in a verdict like any other.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernel_evaluator.engines.wire import strict_json
from kernel_evaluator.problems.jobs import Job, Settings, unmeasured_row
from kernel_evaluator.records.keys import MAX_SAMPLE, KernelKey
from kernel_evaluator.records.rows import Environment, Failure, Row, Status

from leaderboard.files.workfile import bounded
from leaderboard.serve.judgements import Judgement, Judgements
from leaderboard.serve.process import JudgingProcess
from leaderboard.texts.inert import encodable

ATTEMPTS = 2
STALLED_S = 900.0
"""Seconds of silence beyond the time that building and running may take, after which a process is ended."""
PAUSE_S = 1.0
"""Seconds that a device rests after a failure, so that one that lasts neither spins nor empties the queue."""
READY = 2
"""Processes that a device keeps ready, for as many sets of settings."""
IDLE_S = 600.0
"""Seconds without work after which a process is ended, but for the one that was used last."""
RETIRED_AFTER = 2000
"""Kernels after which a process is replaced by a young one."""
COMMAND = (sys.executable, "-m", "leaderboard.serve.worker")

NOT_SHOWN = "what was written meanwhile may be about another key's kernel, and is not shown; send it alone\n"

Batch = Mapping[KernelKey, Judgement]


@dataclass(frozen=True, kw_only=True)
class WorkerDevice:
    """One place to judge: a name for people, and what the engine gets: GPU indices (None for the CPU)."""

    name: str
    gpus: tuple[int, ...] | None = None
    engine: str = "local"

    @property
    def ready(self) -> int:
        """How many processes it keeps ready: one on a cluster, whose devices it holds."""
        return READY if self.engine == "local" else 1

    @property
    def place(self) -> dict[str, Any]:
        """What a worker is told of it."""
        return {"gpus": self.gpus, "engine": self.engine}


class Workers:
    """One thread a device."""

    def __init__(
        self,
        judgements: Judgements,
        devices: Sequence[WorkerDevice],
        *,
        batch_size: int = 8,
        command: Sequence[str] = COMMAND,
        first: Settings | None = None,
    ) -> None:
        """Set up; with `first`, processes by these settings are made ready before anything is asked."""
        self._judgements = judgements
        self._batch_size = min(batch_size, MAX_SAMPLE + 1)
        self._command = list(command)
        self._first = first
        self._running: dict[str, tuple[JudgingProcess, Batch]] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._failing: set[str] = set()
        self._deaths = self._starts = 0
        self._threads = [
            threading.Thread(target=self._serve, args=(device,), name=f"judge-{device.name}", daemon=True)
            for device in devices
        ]

    def start(self) -> None:
        """Start judging."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Drop what is running and end the threads."""
        self._stopping.set()
        self._judgements.close()
        with self._lock:
            for process, _ in self._running.values():
                process.kill()
        for thread in self._threads:
            thread.join(timeout=30)

    def counts(self) -> dict[str, int]:
        """Count the threads at work, the processes that they started, and the batches that failed."""
        alive = sum(thread.is_alive() for thread in self._threads)
        return {"alive": alive, "starts": self._starts, "deaths": self._deaths}

    def failing(self) -> list[str]:
        """Name the devices whose last process left kernels without a verdict."""
        return sorted(self._failing)

    def cancel(self, item: Judgement) -> None:
        """Cancel a judgement, and free the device at once where it was all that its batch still had to do.

        Where others share the batch they are not disturbed: the verdict is dropped when it comes.
        """
        if not self._judgements.cancel(item):
            return
        with self._lock:
            for process, batch in self._running.values():
                members = list(batch.values())
                if any(member is item for member in members) and all(m.is_finished for m in members):
                    process.kill()

    def _serve(self, device: WorkerDevice) -> None:
        ready: dict[Settings, JudgingProcess] = {}
        try:
            if self._first is not None:
                self._warm(device, ready, self._first)
            while True:
                last = max(ready.values(), key=lambda process: process.used, default=None)
                near = last.problem if last else ""
                items = self._judgements.take(self._batch_size, IDLE_S if ready else None, near)
                if items == []:
                    return
                if items is None:
                    self._end_idle(ready)
                elif not self._take_on(device, ready, items):
                    return
        finally:
            for process in ready.values():
                process.end()

    def _take_on(
        self, device: WorkerDevice, ready: dict[Settings, JudgingProcess], items: list[Judgement]
    ) -> bool:
        """Have a batch judged, and see to what it left; False where the server stops."""
        failure = self._judge(device, ready, with_keys(items))
        if self._stopping.is_set():
            return False
        left = [item for item in items if not item.is_finished]
        if not left:
            self._failing.discard(device.name)
            return True
        self._failing.add(device.name)
        self._deaths += 1
        for item in [item for item in left if item.attempts >= ATTEMPTS]:
            self._judgements.finish(item, _lost(item, failure))
        self._judgements.give_back(left)
        self._stopping.wait(PAUSE_S)
        return True

    def _warm(self, device: WorkerDevice, ready: dict[Settings, JudgingProcess], settings: Settings) -> None:
        """Make a process ready; that it cannot be started is said of the first kernel that needs it."""
        try:
            ready[settings] = self._start(device, settings)
        except (OSError, RuntimeError):
            self._failing.add(device.name)

    def _judge(self, device: WorkerDevice, ready: dict[Settings, JudgingProcess], batch: Batch) -> Failure:
        """Have a process judge the batch; tell how that ended, for what it left without a verdict."""
        settings = next(iter(batch.values())).settings
        jobs = [Job(key=key, source=item.source, problem=item.problem) for key, item in batch.items()]
        try:
            process = self._ready(device, ready, settings)
        except (OSError, RuntimeError) as error:  # RuntimeError: the system gives no more threads
            message = f"no judging process could be run ({type(error).__name__}: {error})"
            return Failure(name="WorkerLost", message=message)
        with self._lock:
            self._running[device.name] = (process, batch)
            # Who cancelled the batch or stopped the server just before found no process to kill.
            if self._stopping.is_set() or all(item.is_finished for item in batch.values()):
                process.kill()
        try:
            ending = process.ask(
                jobs,
                lambda line: self._take(line, batch, process),
                lambda: all(item.is_finished for item in batch.values()),
            )
            log = _log_of(process, batch) if ending else ""
            failure = Failure(name="WorkerLost", message=ending, log=log)
        except RuntimeError as error:
            ending = f"the judging process could not be watched ({error})"
            failure = Failure(name="WorkerLost", message=ending)
        finally:
            with self._lock:
                del self._running[device.name]
        if ending or process.judged >= RETIRED_AFTER:
            ready.pop(settings).end()
        return failure

    def _ready(
        self, device: WorkerDevice, ready: dict[Settings, JudgingProcess], settings: Settings
    ) -> JudgingProcess:
        """Give a process that judges by these settings; the one that was used least recently makes room."""
        if settings in ready and not ready[settings].is_alive:
            ready.pop(settings).end()
        if settings not in ready:
            while len(ready) >= device.ready:
                oldest = min(ready, key=lambda each: ready[each].used)
                ready.pop(oldest).end()
            ready[settings] = self._start(device, settings)
        ready[settings].used = time.monotonic()
        return ready[settings]

    def _start(self, device: WorkerDevice, settings: Settings) -> JudgingProcess:
        patience_s = settings.timeout_s + settings.build_timeout_s + STALLED_S
        self._starts += 1
        return JudgingProcess(self._command, device.place, settings, patience_s)

    def _end_idle(self, ready: dict[Settings, JudgingProcess]) -> None:
        last = max(ready, key=lambda settings: ready[settings].used)
        for settings in [settings for settings in ready if settings != last]:
            ready.pop(settings).end()

    def _take(self, line: str, batch: Batch, process: JudgingProcess) -> bool:
        """Note the verdict in a line; False where it holds none.

        Where no kernel is to blame, it has what the process wrote: nothing else says why a problem fails.
        """
        try:
            [verdict] = strict_json(line, ValueError)["verdicts"]
            verdict = json.loads(encodable(json.dumps(verdict, ensure_ascii=False)))
            row, environment = Row.from_json(verdict["row"]), {**verdict["environment"]}
            if row.status is Status.INFRA_ERROR and row.failure is not None and not row.failure.log:
                row = replace(row, failure=replace(row.failure, log=_log_of(process, batch)))
            row = bounded(row)
            item = batch[row.key]
            Environment(**environment)
        except (ValueError, TypeError, KeyError):
            return False
        row = replace(row, key=KernelKey(item.problem.level, item.problem.problem_id))
        self._judgements.finish(item, {"row": row.to_json(), "environment": environment})
        return True


def _log_of(process: JudgingProcess, batch: Batch) -> str:
    """Give what the process wrote, where all of it is about kernels of one key."""
    is_ones_own = len({item.owner for item in batch.values()}) == 1
    return process.log_tail() if is_ones_own else NOT_SHOWN


def with_keys(items: Sequence[Judgement]) -> dict[KernelKey, Judgement]:
    """Give each judgement a key of its own in the batch: several kernels may answer one problem."""
    slots: Counter[tuple[int, int]] = Counter()
    keyed = {}
    for item in items:
        problem = (item.problem.level, item.problem.problem_id)
        keyed[KernelKey(*problem, slots[problem])] = item
        slots[problem] += 1
    return keyed


def _lost(item: Judgement, last: Failure) -> dict[str, Any]:
    job = Job(
        key=KernelKey(item.problem.level, item.problem.problem_id), source=item.source, problem=item.problem
    )
    mend = "send it again; if that fails too, the server needs mending"
    message = f"no verdict in {item.attempts} attempts: {last.message}; {mend}"
    row = unmeasured_row(job, Status.INFRA_ERROR, replace(last, message=message))
    return {"row": row.to_json(), "environment": {"device": "", "gpu": ""}}
