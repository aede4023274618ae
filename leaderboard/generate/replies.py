"""Every reply of a run, whole, as it came: what was asked, what was thought and said, what it took.

One line of JSON a reply in `replies.jsonl`, beside the kernels. Append-only; training data is made of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel_evaluator.records.keys import KernelKey

from leaderboard.files.submission import kernel_sha256
from leaderboard.files.typed import typed
from leaderboard.generate.completions import Completion
from leaderboard.generate.journal import append_line, read_lines
from leaderboard.generate.models import Message

NAME = "replies.jsonl"


@dataclass(frozen=True, kw_only=True)
class KeptReply:
    """A reply and its circumstances. `attempt` counts within a turn, from 0; `code` is the kernel in it."""

    key: KernelKey
    turn: int
    attempt: int
    model: str
    messages: tuple[Message, ...] = field(repr=False)
    text: str = field(repr=False)
    reasoning: str = field(default="", repr=False)
    finish_reason: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """What the request said beside the messages: temperature, seed, …"""
    seconds: float = 0.0
    code: str | None = field(default=None, repr=False)
    complaint: str = ""

    @property
    def kernel_sha256(self) -> str:
        """Digest of the kernel's source as it is judged; empty where there is none."""
        return kernel_sha256(self.code) if self.code else ""


@dataclass(frozen=True, kw_only=True)
class Replies:
    """Keeps the replies of one run folder. Safe to share between threads."""

    folder: Path
    model: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def keep(
        self,
        key: KernelKey,
        reply: Completion,
        messages: Sequence[Message],
        *,
        turn: int,
        attempt: int,
        code: str | None,
        complaint: str,
    ) -> None:
        """Append a reply; it is on disk before this returns."""
        line = {
            "key": str(key),
            "turn": turn,
            "attempt": attempt,
            "model": self.model,
            "messages": [dict(message) for message in messages],
            "text": reply.text,
            "reasoning": reply.reasoning,
            "finish_reason": reply.finish_reason,
            "usage": dict(reply.usage),
            "parameters": dict(self.parameters),
            "seconds": round(reply.seconds, 3),
            "code": code,
            "complaint": complaint,
        }
        append_line(self.folder / NAME, line)


def read_replies(folder: Path) -> Iterator[KeptReply]:
    """Read what a run kept, in the order it came; a line that a kill cut off is passed over."""
    for line in read_lines(folder / NAME):
        try:
            values = {**line, "key": KernelKey.parse(line["key"]), "messages": tuple(line["messages"])}
            yield typed(KeptReply, values)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{folder / NAME}: not a reply that kbl generate kept: {error}") from error
