"""One judging process as the server sees it: started, asked a batch at a time, ended. Decides nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from kernel_evaluator.engines.wire import MAX_ANSWER_BYTES, pack_request
from kernel_evaluator.problems.jobs import Job, Settings

from leaderboard.serve import KEY_VARIABLE

PARTING_S = 10.0
"""Seconds that a process which gives no more verdicts may take to write why and to end."""
LOG_BYTES = 8 << 10

Take = Callable[[str], bool]
"""Notes the verdict in a line; False where it holds none."""


class JudgingProcess:
    """A process that judges by one set of settings. One thread asks; any may kill.

    The first request goes out at once, without a kernel: the process makes its devices ready meanwhile.
    """

    def __init__(
        self, command: Sequence[str], place: Mapping[str, Any], settings: Settings, patience_s: float
    ) -> None:
        """Start it; raises OSError or RuntimeError where the system gives no process."""
        self.settings = settings
        self.problem = ""
        """The problem that it judged last, by digest: what its device has ready."""
        self.judged = 0
        self.used = time.monotonic()
        self._place = dict(place)
        self._patience_s = patience_s
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # open for as long as the process lives
        self._told_at = 0
        try:
            self._process = subprocess.Popen(
                command,
                env=_environment(settings),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        except BaseException:
            self._log.close()
            raise
        self._send([])

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def ask(self, jobs: Sequence[Job], take: Take, is_done: Callable[[], bool]) -> str:
        """Have jobs judged; tell how it ended where it ended before all were, else nothing."""
        assert self._process.stdout is not None  # noqa: S101 - it was opened as a pipe
        heard = time.monotonic()
        if jobs:
            self.problem = jobs[-1].problem.sha256
        if self.judged:  # before, what it wrote says why it is not ready
            self._told_at = self._log_size()
        self._send(jobs)
        for _ in jobs:
            with _killed_after(self._patience_s, self.kill):
                line = self._process.stdout.readline(MAX_ANSWER_BYTES)
            if not line.endswith("\n"):  # the process ended, or was killed in the middle of a line
                return self._ending(heard, is_done=is_done())
            if not take(line):
                self.kill()
                return f"the judging process wrote {line[:200]!r} where a verdict was due"
            heard = self.used = time.monotonic()
            self._told_at = self._log_size()
            self.judged += 1
        return ""

    def kill(self) -> None:
        """Kill the process and what it started; its candidates die with it."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill it, wait for it, and let go of what it was spoken to through."""
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self._process.wait()
        self._log.close()

    def log_tail(self) -> str:
        """Give the end of what it wrote since its last verdict, in this batch."""
        start = max(self._told_at, self._log_size() - LOG_BYTES)
        # pread, since the process writes where this file stands
        return os.pread(self._log.fileno(), LOG_BYTES, start).decode("utf-8", "replace")

    def _log_size(self) -> int:
        return os.fstat(self._log.fileno()).st_size

    def _send(self, jobs: Sequence[Job]) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was opened as a pipe
        request = json.dumps({"batch": pack_request(jobs, self.settings), **self._place})
        with _killed_after(self._patience_s, self.kill), suppress(BrokenPipeError):
            self._process.stdin.write(request + "\n")
            self._process.stdin.flush()

    def _ending(self, heard: float, *, is_done: bool) -> str:
        silent_s = time.monotonic() - heard
        if not is_done:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(PARTING_S)
        return f"the judging process {_how(self._process.poll())} after {silent_s:.0f} s of silence"


def _environment(settings: Settings) -> dict[str, str]:
    """Without the key; on a CPU one thread a process, unless said otherwise: several wait for each other."""
    environment = {name: value for name, value in os.environ.items() if name != KEY_VARIABLE}
    if settings.device == "cpu":
        environment.setdefault("OMP_NUM_THREADS", "1")
    return environment


def _how(code: int | None) -> str:
    if code is None:
        return "gave no more verdicts"
    return f"died of signal {-code}" if code < 0 else f"ended with exit code {code}"


@contextmanager
def _killed_after(seconds: float, kill: Callable[[], None]) -> Iterator[None]:
    """Kill the process where what is done meanwhile takes longer."""
    watch = threading.Timer(seconds, kill)
    watch.start()
    try:
        yield
    finally:
        watch.cancel()
