"""The two processes on the stand, each with its buffers: the trusted reference, and the candidate.

Owns who is to blame where one of them fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from kernel_evaluator.candidate import memory
from kernel_evaluator.candidate.frames import Leaf, Op, Reply
from kernel_evaluator.candidate.outputs import describe_error
from kernel_evaluator.candidate.processes import RunFailed, RunnerProcess

REFERENCE_TIMEOUT_S = 300.0


class ReferenceFailed(Exception):
    """The reference itself did not run: a fault of ours, never the candidate's."""


@contextmanager
def problem_at_work() -> Iterator[None]:
    """Within this a problem's own code runs: what it raises is ReferenceFailed, unless the device is full."""
    try:
        yield
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception as error:  # a problem file may raise anything, and the next problem goes on
        name, _, rest = describe_error(error).partition("\n")
        raise ReferenceFailed(f"the problem's own code failed: {name}: {rest}") from error


@dataclass
class Side:
    """One of the two processes with the buffers that it shares with the oracle.

    What goes wrong on the trusted side raises ReferenceFailed, on the other RunFailed.
    """

    process: RunnerProcess
    buffers: dict[str, memory.SharedBuffer]
    trusted: bool = False
    calls_held: int = 1
    """For the outputs of so many calls at once it has taken memory."""
    waited_s: float = 0.0
    """For so long the reference was ready and got no processor in batches of calls, but for waking up."""
    worked_s: float = 0.0
    """For so long it made calls in batches, by its own clock."""
    delivered: tuple[Leaf, ...] = ()
    """What it says of the outputs that it delivered last, of one after the other."""

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

    def deliver(
        self, indices: list[int], places: list[list[int]], timeout_s: float, *, spin: bool = False
    ) -> None:
        """Let the process copy outputs of its last call or batch to places in the buffer for outputs."""
        self.send(Op.DELIVER, indices=indices, places=places)
        self.delivered = self.receive(timeout_s, spin=spin).leaves

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
