"""One sample: ask, find the kernel in the answer, have a look at it, and ask again where it cannot be one.

The look is KernelBench's static checker. It never turns a kernel down: once the regenerations are used up,
the last complete answer stands, and the evaluator judges it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event

from kernelbench.keys import KernelKey
from kernelbench.static_check import validate_kernel_static

from leaderboard.generate.extract import kernel_block
from leaderboard.generate.journal import Journal
from leaderboard.generate.models import Message, Model, Reply
from leaderboard.generate.patience import Patience, ask


class NoKernelError(Exception):
    """No answer held a kernel, however often the model was asked. The message says what the last one held."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What is in an answer: its code where it is complete, and what to complain about where anything is."""

    code: str | None
    complaint: str


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """Draws one kernel a call. Safe to share between threads."""

    model: Model
    journal: Journal
    backend: str
    precision: str
    patience: Patience
    stopped: Event
    regenerations: int = 3
    check_kernel: bool = True

    def draw(self, key: KernelKey, messages: Sequence[Message], turn: int) -> str:
        """Give a kernel's source; raise NoKernelError or ModelError."""
        kept: str | None = None
        asked = list(messages)
        complaint = ""
        for attempt in range(self.regenerations + 1):
            reply = ask(
                self.model,
                asked,
                patience=self.patience,
                stopped=self.stopped,
                on_retry=lambda why, wait_s: self.journal.add(
                    "retry", key, why=why[:300], wait_s=round(wait_s, 2)
                ),
            )
            self.journal.add_reply(key, reply, turn=turn)
            look = self.look_at(reply)
            kept = look.code if look.code is not None else kept
            complaint = look.complaint
            if not complaint:
                break
            if attempt < self.regenerations:
                self.journal.add("regenerate", key, turn=turn, why=complaint)
                asked = [*messages, *_follow_up(reply, complaint)]
        if kept is None:
            raise NoKernelError(complaint)
        return kept

    def look_at(self, reply: Reply) -> Look:
        """Say what an answer holds."""
        block = kernel_block(reply.text)
        if not reply.text.strip():
            return Look(code=None, complaint="the answer is empty")
        if block is None:
            return Look(code=None, complaint="the answer has no fenced code block")
        if not block.closed:
            return Look(code=None, complaint="the answer ends inside its code block")
        if not block.code:
            return Look(code=None, complaint="the code block is empty")
        return Look(code=block.code + "\n", complaint=self._complaint(block.code))

    def _complaint(self, code: str) -> str:
        if not self.check_kernel:
            return ""
        try:
            compile(code, "kernel", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return f"the code does not parse: {error}"
        if "ModelNew" not in code:
            return "the code does not define ModelNew"
        _, errors, _ = validate_kernel_static(code, self.backend, self.precision)
        return "; ".join(errors)


def _follow_up(reply: Reply, complaint: str) -> list[Message]:
    """Two messages that ask again. An empty answer is left out: servers refuse empty messages."""
    wish = "Please give the complete source of ModelNew in one fenced code block."
    said = [{"role": "assistant", "content": reply.text}] if reply.text.strip() else []
    return [*said, {"role": "user", "content": f"That cannot be used: {complaint}. {wish}"}]
