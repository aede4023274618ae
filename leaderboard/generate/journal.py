"""The journal of a run: one line of JSON an event, so that tokens and money are counted whatever happens.

Append-only. The kernels' own files say what is finished; the journal says what it took and what was given up.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_evaluator.records.keys import KernelKey

from leaderboard.files.store import naming
from leaderboard.files.workfile import utc_now
from leaderboard.generate.completions import Completion, cost_of, count_of

NAME = "generation.jsonl"
_LOCK = threading.Lock()
"""Held while a line is appended: lines are few and short beside what they tell of."""


@dataclass(frozen=True, kw_only=True)
class Totals:
    """What a run took so far, over every time it was started.

    `cost_usd` covers `priced` of the replies, and the tokens `counted` of them.
    """

    replies: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    priced: int = 0
    counted: int = 0


class Journal:
    """Appends events of several threads to one file; reads back what earlier runs left."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME

    def add(self, event: str, key: KernelKey, **facts: Any) -> None:
        """Append one event; it is on disk before this returns."""
        append_line(self.path, {"at": utc_now(), "event": event, "key": str(key), **facts})

    def add_reply(self, key: KernelKey, reply: Completion, *, turn: int) -> None:
        """Note an answer's tokens and cost, before anything is made of it."""
        self.add(
            "reply",
            key,
            turn=turn,
            finish_reason=reply.finish_reason,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            cost_usd=reply.cost_usd,
            seconds=round(reply.seconds, 3),
        )

    def events(self) -> Iterator[dict[str, Any]]:
        """Read every whole line; one that a kill cut off is passed over."""
        yield from read_lines(self.path)

    def given_up(self) -> dict[KernelKey, str]:
        """List samples whose answers held no kernel, however often asked, with the reason."""
        found = {
            KernelKey.parse(event["key"]): str(event["reason"])
            for event in self.events()
            if event.get("event") == "given_up"
        }
        return dict(sorted(found.items()))

    def totals(self) -> Totals:
        """Add up what the run took."""
        replies = [event for event in self.events() if event.get("event") == "reply"]
        costs = [cost for event in replies if (cost := cost_of(event.get("cost_usd"))) is not None]
        return Totals(
            replies=len(replies),
            retries=sum(event.get("event") == "retry" for event in self.events()),
            prompt_tokens=sum(count_of(event.get("prompt_tokens")) for event in replies),
            completion_tokens=sum(count_of(event.get("completion_tokens")) for event in replies),
            cost_usd=float(sum(costs)),
            priced=len(costs),
            counted=sum(count_of(event.get("completion_tokens")) > 0 for event in replies),
        )


def append_line(path: Path, values: Mapping[str, Any]) -> None:
    """Append one object as a line of JSON; it is on disk before this returns."""
    line = json.dumps(values, ensure_ascii=False)
    with _LOCK, naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as stream:
            # A line that a kill cut off is closed first, so that this one stays readable.
            torn = stream.tell() > 0 and not _ends_with_newline(path)
            stream.write(("\n" if torn else "").encode() + line.encode("utf-8", "replace") + b"\n")


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Read every whole line that is an object; one that a kill cut off is passed over."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace", newline="\n") as stream:
        for line in stream:
            try:
                values = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(values, dict):
                yield values


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as stream:
        stream.seek(-1, 2)
        return stream.read(1) == b"\n"
