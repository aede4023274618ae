"""Several turns for one sample: what was tried, what the evaluator said, and what the model is told of it.

Keeps one JSON file a sample beside the kernels, so that a run resumes between turns. The words are in
`prompts.toml`; the verdicts are the evaluator's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Row, Status
from kernel_evaluator.upstream.files import write_text

from leaderboard.generate.models import Message
from leaderboard.prompts import PROMPTS_TOML, read_toml

LOG_CHARACTERS = 4000


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One attempt: the kernel, and its row once it is judged."""

    code: str
    row: Row | None = None


@dataclass(frozen=True, kw_only=True)
class TurnFile:
    """The attempts of one sample on disk."""

    folder: Path
    key: KernelKey

    @property
    def path(self) -> Path:
        """Where they are."""
        return self.folder / f"{self.key}_turns.json"

    def read(self) -> list[Turn]:
        """Read the attempts so far; raise ValueError where the file is not one of ours."""
        if not self.path.exists():
            return []
        try:
            turns = json.loads(self.path.read_text("utf-8"))["turns"]
            rows = [Row.from_json(turn["row"]) if turn["row"] else None for turn in turns]
            return [Turn(code=turn["code"], row=row) for turn, row in zip(turns, rows, strict=True)]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                f"{self.path}: not the turns that kbl generate kept: {error!r:.200}; remove it, and the "
                "sample begins anew"
            ) from error

    def write(self, turns: Sequence[Turn]) -> None:
        """Replace the file in one step."""
        listed = [{"code": turn.code, "row": turn.row.to_json() if turn.row else None} for turn in turns]
        write_text(self.path, json.dumps({"turns": listed}, indent=2) + "\n")


def best_turn(turns: Sequence[Turn]) -> Turn:
    """Give the fastest correct attempt, else the last one."""
    correct = [turn for turn in turns if turn.row is not None and turn.row.is_correct]
    return (
        max(correct, key=lambda turn: turn.row.speedup or 0.0 if turn.row else 0.0) if correct else turns[-1]
    )


def conversation(prompt: str, turns: Sequence[Turn]) -> list[Message]:
    """Give the messages that ask for the next attempt: the prompt, then each attempt and what came of it."""
    messages: list[Message] = [{"role": "user", "content": prompt}]
    for turn in turns:
        messages.append({"role": "assistant", "content": f"```python\n{turn.code.strip()}\n```"})
        if turn.row is not None:
            messages.append({"role": "user", "content": feedback(turn.row)})
    return messages


def feedback(row: Row) -> str:
    """Say in words what the evaluator found: the error, the counter-example, or the timing."""
    words: Mapping[str, str] = read_toml(PROMPTS_TOML)["feedback"]
    if row.is_correct:
        timed = row.runtime_ms is not None and row.reference_ms is not None and row.speedup is not None
        found = words["correct"] if timed else words["correct_untimed"]
    else:
        found = words.get(row.status.value, words["failed"])
    facts = {**_timing_facts(row), **_failure_facts(row)}
    for name, value in facts.items():
        found = found.replace("{" + name + "}", value)
    return f"{found.strip()}\n\n{words['again'].strip()}"


def _timing_facts(row: Row) -> dict[str, str]:
    if row.runtime_ms is None or row.reference_ms is None or row.speedup is None:
        return {}
    low, high = row.speedup_ci95 or (row.speedup, row.speedup)
    return {
        "runtime_ms": f"{row.runtime_ms.median:.4g}",
        "reference_ms": f"{row.reference_ms.median:.4g}",
        "speedup": f"{row.speedup:.3f}",
        "interval": f"{low:.3f} to {high:.3f}",
    }


def _failure_facts(row: Row) -> dict[str, str]:
    details: list[str] = []
    if row.failure is not None:
        details.append(f"{row.failure.name}: {row.failure.message}")
        if row.failure.log and row.status is not Status.MISMATCH:
            details.append(f"The end of the log:\n{row.failure.log[-LOG_CHARACTERS:]}")
    if row.worst_error is not None and not row.is_correct:
        details.append(f"The largest error is {row.worst_error:.3g} times the tolerance.")
    details += [f"{name}: {_shown(value)}" for name, value in (row.evidence or {}).items()]
    return {"details": "\n".join(details)}


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= LOG_CHARACTERS else f"{text[:LOG_CHARACTERS]} …"
