"""The two processes on the stand, each with its buffers: the trusted reference, and the candidate.

Owns who is to blame where one of them fails, and the processor core from which both launch work.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kernelbench import memory
from kernelbench.frames import Op, Reply
from kernelbench.processes import RunFailed, RunnerProcess

REFERENCE_TIMEOUT_S = 300.0
MIN_CORES = 4
"""With fewer processor cores nobody is kept to one of them."""


class ReferenceFailed(Exception):
    """The reference itself did not run: a fault of ours, never the candidate's."""


@dataclass
class Side:
    """One of the two processes with the buffers that it shares with the oracle.

    What goes wrong on the trusted side raises ReferenceFailed, on the other RunFailed.
    """

    process: RunnerProcess
    buffers: dict[str, memory.SharedBuffer]
    trusted: bool = False

    def ask(self, op: Op, timeout_s: float, *, fds: tuple[int, ...] = (), **facts: Any) -> Reply:
        """Send a request and wait for its answer."""
        with self._blaming():
            return self.process.ask(op, self._patience_s(timeout_s), fds=fds, **facts)

    def send(self, op: Op, **facts: Any) -> None:
        """Send a request whose answer is waited for by `receive`."""
        with self._blaming():
            self.process.send(op, **facts)

    def receive(self, timeout_s: float, *, spin: bool) -> Reply:
        """Wait for the answer to the last request."""
        with self._blaming():
            return self.process.receive(self._patience_s(timeout_s), spin=spin)

    def hand_over(self, name: str, timeout_s: float) -> None:
        """Let the process map one of the buffers."""
        buffer = self.buffers[name]
        nbytes = buffer.tensor.numel()
        facts = {"name": name, "nbytes": nbytes, "fallback": buffer.is_fallback}
        self.ask(Op.BUFFER, timeout_s, fds=(buffer.fd,), **facts)

    def _patience_s(self, timeout_s: float) -> float:
        return REFERENCE_TIMEOUT_S if self.trusted else timeout_s

    @contextmanager
    def _blaming(self) -> Iterator[None]:
        try:
            yield
        except RunFailed as error:
            if not self.trusted:
                raise
            raise ReferenceFailed(f"{error}\n{error.trail}") from error


@cache
def launch_core(device: str) -> int | None:
    """The processor core from which both sides launch work; the oracle keeps to the others of its share."""
    cores = sorted(os.sched_getaffinity(0))
    if device != "cuda" or len(cores) < MIN_CORES:
        return None
    os.sched_setaffinity(0, set(cores[: -MIN_CORES // 2]) - _siblings(cores[-1]))
    return cores[-1]


def _siblings(core: int) -> set[int]:
    """The threads of the core that a processor thread is on, where Linux says so: `7,15` or `6-7`."""
    try:
        text = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text("utf-8")
    except OSError:
        return set()
    spans = [part.partition("-") for part in text.strip().split(",")]
    return {each for first, _, last in spans for each in range(int(first), int(last or first) + 1)}
