"""Threads that keep the devices busy: each takes batches and has a process of its own judge them.

What a batch leaves without a verdict when its process dies is tried again, each judgement alone; one whose
process dies again gets `infra_error`. What a candidate does to its own process is the engine's business and
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
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from kernelbench.engines.wire import pack_request
from kernelbench.jobs import Job, unmeasured_row
from kernelbench.keys import MAX_SAMPLE, KernelKey
from kernelbench.rows import Failure, Status

from leaderboard.serve.judgements import Judgement, Judgements

KEY_VARIABLE = "KBL_API_KEY"
"""Holds the server's API key; no process that judges gets it."""

ATTEMPTS = 2
STALLED_S = 900.0
"""Seconds of silence beyond the time that building and running may take, after which a process is ended."""
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
        self._stopping = False
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
        self._stopping = True
        self._judgements.close()
        with self._lock:
            for process, _ in self._running.values():
                _kill(process)
        for thread in self._threads:
            thread.join(timeout=30)

    def alive(self) -> int:
        """Count the threads at work."""
        return sum(thread.is_alive() for thread in self._threads)

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
            left = self._judge(device, with_keys(items))
            if self._stopping:
                return
            for item in [item for item in left if item.attempts >= ATTEMPTS]:
                self._judgements.finish(item, _lost(item))
            self._judgements.give_back(left)

    def _judge(self, device: Device, batch: Batch) -> list[Judgement]:
        """Have one process judge the batch; give what it left without a verdict."""
        jobs = [Job(key=key, source=item.source, problem=item.problem) for key, item in batch.items()]
        settings = next(iter(batch.values())).settings
        request = json.dumps({"batch": pack_request(jobs, settings), "gpus": device.gpus})
        with tempfile.TemporaryFile("w+") as log:
            process = self._start(device, batch, log)
            patience_s = settings.timeout_s + settings.build_timeout_s + STALLED_S
            try:
                self._feed(process, request)
                self._read(process, batch, patience_s)
            finally:
                _kill(process)
                process.wait()
                with self._lock:
                    del self._running[device.name]
        left = [item for item in batch.values() if not item.is_finished]
        self.deaths += bool(left) and not self._stopping
        return left

    def _start(self, device: Device, batch: Batch, log: IO[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self._command,
            env={name: value for name, value in os.environ.items() if name != KEY_VARIABLE},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        with self._lock:
            self._running[device.name] = (process, batch)
        return process

    def _feed(self, process: subprocess.Popen[str], request: str) -> None:
        assert process.stdin is not None  # noqa: S101 - it was opened as a pipe
        try:
            process.stdin.write(request)
            process.stdin.close()
        except BrokenPipeError:
            return

    def _read(self, process: subprocess.Popen[str], batch: Batch, patience_s: float) -> None:
        """Take verdicts until the process ends; end it where it stays silent for too long."""
        assert process.stdout is not None  # noqa: S101 - it was opened as a pipe
        while True:
            watch = threading.Timer(patience_s, _kill, (process,))
            watch.start()
            try:
                line = process.stdout.readline()
            finally:
                watch.cancel()
            if not line:
                return
            self._take(line, batch)

    def _take(self, line: str, batch: Batch) -> None:
        """Note the verdict in a line; a line that a kill cut off is none."""
        try:
            [verdict] = json.loads(line)["verdicts"]
        except ValueError:
            return
        item = batch[KernelKey.parse(verdict["row"]["key"])]
        verdict["row"]["key"] = str(KernelKey(item.problem.level, item.problem.problem_id))
        self._judgements.finish(item, verdict)


def with_keys(items: Sequence[Judgement]) -> dict[KernelKey, Judgement]:
    """Give each judgement a key of its own in the batch: several kernels may answer one problem."""
    slots: Counter[tuple[int, int]] = Counter()
    keyed = {}
    for item in items:
        problem = (item.problem.level, item.problem.problem_id)
        keyed[KernelKey(*problem, slots[problem])] = item
        slots[problem] += 1
    return keyed


def _lost(item: Judgement) -> dict[str, Any]:
    job = Job(
        key=KernelKey(item.problem.level, item.problem.problem_id), source=item.source, problem=item.problem
    )
    failure = Failure(
        name="WorkerLost", message=f"the judging process died {item.attempts} times; send it again"
    )
    row = unmeasured_row(job, Status.INFRA_ERROR, failure)
    return {"row": row.to_json(), "environment": {"device": "", "gpu": ""}}


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill the process and what it started; its candidates die with it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
