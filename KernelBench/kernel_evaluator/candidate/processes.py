"""The oracle's side of the processes that run models: starting, asking, watching, ending them."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from kernel_evaluator import secret_draws
from kernel_evaluator.candidate.frames import Channel, ChannelClosed, Op, Overdue, ProtocolError, Reply
from kernel_evaluator.records.places import PACKAGE
from kernel_evaluator.walls import sandbox

LOG_BYTES = 8 << 10
_MAX_NAME = 200
_WATCH_S = 0.25
_END_S = 10.0
_HANGS_UP_S = 2.0
_KILLED = 128 + signal.SIGKILL
"""Nobody but the system and we can kill a candidate: it is the first process of its namespace."""

_KEPT_VARIABLES = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "ROCM_HOME",
    "HIP_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "TORCH_CUDA_ARCH_LIST",
    "THUNDERKITTENS_ROOT",
    "CUTLASS_PATH",
    "MATHDX_ROOT",
    "CC",
    "CXX",
)

_KEEPING_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
"""What a call has given back stays with its process, from the first call on. By itself the C library begins
to keep it by what was freed before: an old process was five times as fast as a young one, which paged it in
anew at each call."""

_FOLDER_VARIABLES = (
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "ROCM_HOME",
    "THUNDERKITTENS_ROOT",
    "CUTLASS_PATH",
    "MATHDX_ROOT",
)


class RunFailed(Exception):
    """What ran did not answer as asked: an error inside it, its death, its silence, or a broken protocol."""

    def __init__(self, name: str, message: str, trail: str = "") -> None:
        super().__init__(f"{name}: {message}")
        self.name, self.message, self.trail = name, message, trail


@dataclass(frozen=True, kw_only=True)
class Home:
    """How runners are started: on which device, with how many threads and how much memory (bytes).

    On a CPU all are kept to the same processor cores, as many as a runner has threads.
    """

    device: str
    threads: int
    memory_bytes: int


class Zygote:
    """The process that forks runners. Use it as a context manager; leaving it ends every runner."""

    def __init__(self, home: Home) -> None:
        self.home = home
        ours, theirs = socket.socketpair()
        paths = [str(Path(path).resolve()) for path in sys.path]
        code = f"import sys; sys.path[:] = {paths!r}; from kernel_evaluator.candidate.zygote import main"
        code += f"; main({theirs.fileno()}, {tempfile.gettempdir()!r})"
        environment = {
            **{k: v for k, v in os.environ.items() if k in _KEPT_VARIABLES},
            "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
            **_KEEPING_MEMORY,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", code],
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # it outlives our group for as long as it takes to end all it forked
        )
        theirs.close()
        self._control = ours
        self._lines: IO[str] = ours.makefile("r", encoding="utf-8")
        self._ready = False
        self._cores = _cores(home.threads) if home.device == "cpu" else []
        self.has_compiler = False
        self._turn = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._lines.close()
        self._control.close()
        try:
            self._process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            sandbox.kill_all(sandbox.descendants(self._process.pid))
            self._process.wait()

    def abandon(self) -> None:
        """End every runner at once, from whatever thread; nothing can be asked afterwards."""
        self._control.shutdown(socket.SHUT_RDWR)

    def fork(self, *, confined: bool, cache: Path | None = None) -> RunnerProcess:
        """Start a runner: `confined` for a candidate, free for the trusted reference."""
        self._wait_until_ready()
        uid = secret_draws.uid(sandbox.FIRST_UID, sandbox.UIDS) if confined else os.geteuid()
        ours, theirs = socket.socketpair()
        log = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        request = {
            "do": "fork",
            "confine": confined,
            "uid": uid,
            "device": self.home.device,
            "threads": self.home.threads,
            "cores": self._cores,
            "memory_bytes": self.home.memory_bytes,
            "address_bytes": self.home.memory_bytes if self.home.device == "cpu" else 0,
            "cache": str(cache) if cache else None,
            "readable": [str(path) for path in _readable(cache)],
            "environment": {k: v for k, v in os.environ.items() if k in _KEPT_VARIABLES},
        }
        pid = self._request(request, (theirs.fileno(), log.fileno()))["pid"]
        theirs.close()
        return RunnerProcess(self, Channel(ours), pid, log)

    def load_compiler(self) -> None:
        """Load torch's compiler, once for all runners that are forked from now on."""
        self._wait_until_ready()
        self._request({"do": "load_compiler"})
        self.has_compiler = True

    def has_ended(self, pid: int) -> bool:
        """Whether a runner that hung up has ended too, or does within a moment."""
        deadline = time.monotonic() + _HANGS_UP_S
        while not (ended := bool(self._request({"do": "ended", "pid": pid})["ended"])):
            if time.monotonic() > deadline:
                break
            time.sleep(0.002)
        return ended

    def end(self, pid: int) -> int:
        """Kill a runner and all it started; give its exit code once it is gone, -1 where it stays."""
        self._request({"do": "kill", "pid": pid})
        deadline = time.monotonic() + _END_S
        while time.monotonic() < deadline:
            status = self._request({"do": "status", "pid": pid})["status"]
            if status is not None:
                return int(status)
            time.sleep(0.002)
        return -1

    def _request(self, request: dict[str, Any], fds: tuple[int, ...] = ()) -> dict[str, Any]:
        with self._turn:
            socket.send_fds(self._control, [json.dumps(request).encode()], fds)
            answer: dict[str, Any] = json.loads(self._lines.readline())
        return answer

    def _wait_until_ready(self) -> None:
        if not self._ready:
            if self._lines.readline() != "ready\n":
                raise RuntimeError("the zygote did not start: is torch installed?")
            self._ready = True


class RunnerProcess:
    """One process that runs a model. `waited_s` sums the seconds spent waiting for its answers.

    `paused_s` sums those for which it was stopped, `ran_paused_s` what it used of processors meanwhile.
    `went_on_at` is when the last pause ended, in seconds of `time.perf_counter`.
    """

    def __init__(self, zygote: Zygote, channel: Channel, pid: int, log: IO[bytes]) -> None:
        self.pid = pid
        self.channel = channel
        self.waited_s = self.paused_s = self.ran_paused_s = self.went_on_at = 0.0
        self._zygote = zygote
        self._log = log
        self._ended: int | None = None
        self._memory_exceeded = False
        self._watch = threading.Thread(target=self._watch_memory, daemon=True)
        self._watch.start()

    def ask(self, op: Op, timeout_s: float, *, fds: tuple[int, ...] = (), **facts: Any) -> Reply:
        """Send a request and wait for its answer; raise RunFailed where there is no good one."""
        self.send(op, fds=fds, **facts)
        return self.receive(timeout_s)

    def send(self, op: Op, *, fds: tuple[int, ...] = (), **facts: Any) -> None:
        """Send a request whose answer is waited for later; raise RunFailed where that is not possible."""
        if self.is_ended:
            raise self._death()
        try:
            self.channel.ask(op, fds=fds, **facts)
        except ChannelClosed:
            raise self._death() from None
        except ProtocolError as error:
            raise RunFailed("ProtocolViolation", str(error)) from None

    def receive(self, timeout_s: float, *, spin: bool = False) -> Reply:
        """Wait for the answer to the last request; raise RunFailed where there is no good one."""
        start = time.monotonic()
        try:
            reply = self.channel.receive(timeout_s, spin=spin)
        except Overdue:
            raise RunFailed("Timeout", f"no answer within {timeout_s:.0f} s") from None
        except ChannelClosed:
            raise self._death() from None
        except ProtocolError as error:
            raise RunFailed("ProtocolViolation", str(error)) from None
        finally:
            self.waited_s += time.monotonic() - start
        if reply.op is Op.FAILED:
            name, _, rest = reply.text.partition("\n")
            message, _, trail = rest.partition("\nTraceback")
            raise RunFailed(name[:_MAX_NAME], message, trail)
        return reply

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the process and all it started for a while, and note what ran all the same.

        What could not be stopped counts as having run throughout.
        """
        family = sandbox.stop_all(self.pid)
        before, start = sandbox.processor_seconds(family), time.monotonic()
        try:
            yield
        finally:
            now, spent_s = sandbox.descendants(self.pid), time.monotonic() - start
            ran_s = max(0.0, sandbox.processor_seconds(now) - before)
            self.ran_paused_s += ran_s if set(now) <= set(family) else max(ran_s, spent_s)
            self.paused_s += spent_s
            self.went_on_at = time.perf_counter()
            sandbox.signal_all({*family, *now}, signal.SIGCONT)

    def end(self) -> int:
        """Kill the process and everything it started; give its exit code, 128 + n for signal n."""
        if self._ended is None:
            self._ended = self._zygote.end(self.pid)
            self.channel.close()
        return self._ended

    @property
    def is_ended(self) -> bool:
        """Whether it was ended by us."""
        return self._ended is not None

    def log_tail(self) -> str:
        """The end of what the process printed."""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - LOG_BYTES))
        return self._log.read(LOG_BYTES).decode("utf-8", "replace")

    def walls(self) -> tuple[str, ...]:
        """The walls that stand around the process, as it said before any submitted code ran."""
        self._log.seek(0)
        first = self._log.readline(400).decode("utf-8", "replace")
        return tuple(first.removeprefix("walls:").split()) if first.startswith("walls:") else ()

    def _death(self) -> RunFailed:
        lives_on = self._ended is None and not self._zygote.has_ended(self.pid)
        status = self.end()
        if self._memory_exceeded:
            return RunFailed(
                "OutOfMemory", f"more than {self._zygote.home.memory_bytes / 2**30:.1f} GiB of host memory"
            )
        if lives_on:
            return RunFailed("HungUp", "the process closed the line before it answered, and lived on")
        if status == _KILLED:
            return RunFailed("OutOfMemory", "the system ended the process, as it does where memory runs out")
        how = f"signal {status - 128}" if status > 128 else f"exit code {status}"
        return RunFailed("ProcessDied", f"the process ended by {how} before it answered")

    def _watch_memory(self) -> None:
        limit = self._zygote.home.memory_bytes
        while self._ended is None:
            if sandbox.held_bytes(sandbox.descendants(self.pid)) > limit:
                self._memory_exceeded = True
                sandbox.kill_all(sandbox.descendants(self.pid))
                return
            time.sleep(_WATCH_S)


def _cores(count: int) -> list[int]:
    """So many processor cores, or all; any, since others on this machine may keep to some, too."""
    there = sorted(os.sched_getaffinity(0))
    return random.sample(there, min(count, len(there)))


def _readable(cache: Path | None) -> list[Path]:
    paths = [Path(p) for p in (sys.prefix, sys.base_prefix, *sys.path) if p and Path(p).is_dir()]
    paths += [PACKAGE, *([cache] if cache else [])]
    named = [os.environ.get(name, "") for name in _FOLDER_VARIABLES]
    paths += [Path(p) for each in named for p in each.split(os.pathsep) if p and Path(p).is_dir()]
    return sorted({path.resolve() for path in paths})
