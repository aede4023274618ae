"""Threads that keep the devices busy: each takes batches and has a process of its own judge them.

What a batch leaves without a verdict, however its process fails, is tried again, each judgement alone; what
is left once more gets `infra_error`. What a candidate does to its own process is the engine's business and
ends in a verdict like any other.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import IO, Any

from kernel_evaluator.engines.wire import MAX_ANSWER_BYTES, pack_request, strict_json
from kernel_evaluator.problems.jobs import Job, unmeasured_row
from kernel_evaluator.records.keys import MAX_SAMPLE, KernelKey
from kernel_evaluator.records.rows import Environment, Failure, Row, Status

from leaderboard.serve.judgements import Judgement, Judgements

KEY_VARIABLE = "KBL_API_KEY"
"""Holds the server's API key; no process that judges gets it."""

ATTEMPTS = 2
STALLED_S = 900.0
"""Seconds of silence beyond the time that building and running may take, after which a process is ended."""
PARTING_S = 10.0
"""Seconds that a process which gives no more verdicts may take to write why and to end."""
PAUSE_S = 1.0
"""Seconds that a device rests after a failure, so that one that lasts neither spins nor empties the queue."""
LOG_BYTES = 8 << 10
COMMAND = (sys.executable, "-m", "leaderboard.serve.worker")

Batch = Mapping[KernelKey, Judgement]


@dataclass(frozen=True, kw_only=True)
class Device:
    """One place to judge: a name for people, and the GPU indices that the engine gets (None for the CPU)."""

    name: str
    gpus: tuple[int, ...] | None


class Workers:
    """One thread a device."""

    def __init__(
        self,
        judgements: Judgements,
        devices: Sequence[Device],
        *,
        batch_size: int = 16,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._judgements = judgements
        self._batch_size = min(batch_size, MAX_SAMPLE + 1)
        self._command = list(command)
        self._running: dict[str, tuple[subprocess.Popen[str], Batch]] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._failing: set[str] = set()
        self.deaths = 0
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
                _kill(process)
        for thread in self._threads:
            thread.join(timeout=30)

    def alive(self) -> int:
        """Count the threads at work."""
        return sum(thread.is_alive() for thread in self._threads)

    def failing(self) -> list[str]:
        """Name the devices whose last process left kernels without a verdict."""
        return sorted(self._failing)

    def cancelled(self, item: Judgement) -> None:
        """Free the device at once where a cancelled judgement was all that its batch still had to do.

        Where others share the batch they are not disturbed: the verdict is dropped when it comes.
        """
        with self._lock:
            for process, batch in self._running.values():
                members = list(batch.values())
                if any(member is item for member in members) and all(m.is_finished for m in members):
                    _kill(process)

    def _serve(self, device: Device) -> None:
        while items := self._judgements.take(self._batch_size):
            failure = self._judge(device, with_keys(items))
            if self._stopping.is_set():
                return
            left = [item for item in items if not item.is_finished]
            if not left:
                self._failing.discard(device.name)
                continue
            self._failing.add(device.name)
            self.deaths += 1
            for item in [item for item in left if item.attempts >= ATTEMPTS]:
                self._judgements.finish(item, _lost(item, failure))
            self._judgements.give_back(left)
            self._stopping.wait(PAUSE_S)

    def _judge(self, device: Device, batch: Batch) -> Failure:
        """Have one process judge the batch; tell how it ended, for what it left without a verdict."""
        try:
            with tempfile.TemporaryFile() as log:
                ending = self._run(device, batch, log)
                return Failure(name="WorkerLost", message=ending, log=_tail(log))
        except (OSError, RuntimeError) as error:  # RuntimeError: the system gives no more threads
            message = f"no judging process could be run ({type(error).__name__}: {error})"
            return Failure(name="WorkerLost", message=message)

    def _run(self, device: Device, batch: Batch, log: IO[bytes]) -> str:
        """Start a process, ask it, and take what it says; tell how it ended."""
        jobs = [Job(key=key, source=item.source, problem=item.problem) for key, item in batch.items()]
        settings = next(iter(batch.values())).settings
        request = json.dumps({"batch": pack_request(jobs, settings), "gpus": device.gpus})
        patience_s = settings.timeout_s + settings.build_timeout_s + STALLED_S
        process = self._start(device, batch, log)
        try:
            return self._talk(process, request, batch, patience_s)
        finally:
            _kill(process)
            process.wait()
            with self._lock:
                del self._running[device.name]

    def _start(self, device: Device, batch: Batch, log: IO[bytes]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self._command,
            env={name: value for name, value in os.environ.items() if name != KEY_VARIABLE},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        with self._lock:
            self._running[device.name] = (process, batch)
            # Who cancelled the batch or stopped the server just before found no process to kill.
            if self._stopping.is_set() or all(item.is_finished for item in batch.values()):
                _kill(process)
        return process

    def _talk(self, process: subprocess.Popen[str], request: str, batch: Batch, patience_s: float) -> str:
        """Take verdicts until the process ends; end it where it stays silent for too long."""
        assert process.stdout is not None  # noqa: S101 - it was opened as a pipe
        heard = time.monotonic()
        with _killed_after(patience_s, process):
            self._feed(process, request)
        while True:
            with _killed_after(patience_s, process):
                line = process.stdout.readline(MAX_ANSWER_BYTES)
            if not line.endswith("\n"):  # the process ended, or was killed in the middle of a line
                break
            if not self._take(line, batch):
                return f"the judging process wrote {line[:200]!r} where a verdict was due"
            heard = time.monotonic()
        silent_s = time.monotonic() - heard
        if not all(item.is_finished for item in batch.values()):
            with suppress(subprocess.TimeoutExpired):
                process.wait(PARTING_S)
        return f"the judging process {_ending(process)} after {silent_s:.0f} s of silence"

    def _feed(self, process: subprocess.Popen[str], request: str) -> None:
        assert process.stdin is not None  # noqa: S101 - it was opened as a pipe
        try:
            process.stdin.write(request)
            process.stdin.close()
        except BrokenPipeError:
            return

    def _take(self, line: str, batch: Batch) -> bool:
        """Note the verdict in a line; False where it holds none."""
        try:
            [verdict] = strict_json(line, ValueError)["verdicts"]
            row, environment = {**verdict["row"]}, {**verdict["environment"]}
            item = batch[Row.from_json(row).key]
            Environment(**environment)
        except (ValueError, TypeError, KeyError):
            return False
        row["key"] = str(KernelKey(item.problem.level, item.problem.problem_id))
        self._judgements.finish(item, {"row": row, "environment": environment})
        return True


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


def _ending(process: subprocess.Popen[str]) -> str:
    code = process.returncode
    if code is None:
        return "gave no more verdicts"
    return f"died of signal {-code}" if code < 0 else f"ended with exit code {code}"


def _tail(log: IO[bytes]) -> str:
    log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_BYTES))
    return log.read(LOG_BYTES).decode("utf-8", "replace")


@contextmanager
def _killed_after(seconds: float, process: subprocess.Popen[str]) -> Iterator[None]:
    """Kill the process where what is done meanwhile takes longer."""
    watch = threading.Timer(seconds, _kill, (process,))
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill the process and what it started; its candidates die with it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
