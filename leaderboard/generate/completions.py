"""Reads a chat completion as OpenAI-compatible servers send it, and says which field is not what it must be.

An odd count costs no answer: it is as if the server had not counted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from leaderboard.texts.inert import encodable

LONGEST_INTEGER = 20
"""Digits; what has more is a server's mistake, not a count."""


class CompletionError(Exception):
    """The answer is no chat completion. The message names the field, what it must be, and what was found."""


@dataclass(frozen=True, kw_only=True)
class Completion:
    """One answer and what it took. Counts are 0, and `cost_usd` is None, where nobody tells."""

    text: str
    reasoning: str = ""
    """What the model thought, where the server tells that apart from what it said."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    """Tokens as the server counts them."""
    finish_reason: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0


def read_completion(content: bytes) -> Completion:
    """Read an answer's body; raise CompletionError."""
    try:
        answer = json.loads(content, parse_float=_finite, parse_int=_whole, parse_constant=lambda _: None)
    except ValueError as error:
        raise CompletionError(f"it must be JSON in UTF-8: {error}") from error
    except RecursionError as error:
        raise CompletionError("it is nested too deeply") from error
    answer = _object("the answer", answer)
    choices = answer.get("choices")
    if not choices and answer.get("error"):  # as OpenRouter sends what went wrong behind it
        raise CompletionError(f"it is an error, {json.dumps(answer['error'])[:300]}")
    if not isinstance(choices, list) or not choices:
        raise CompletionError(f"choices must be a list with at least one answer, got {_shown(choices)}")
    choice = _object("choices[0]", choices[0])
    message = _object("choices[0].message", choice.get("message"))
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Completion(
        text=_text(message.get("content")) or _encodable(message.get("refusal")),
        reasoning=_reasoning(message),
        usage=usage,
        finish_reason=_encodable(choice.get("finish_reason")),
        prompt_tokens=count_of(usage.get("prompt_tokens")),
        completion_tokens=count_of(usage.get("completion_tokens")),
        cost_usd=cost_of(usage.get("cost")),
    )


def _finite(number: str) -> float | None:
    """JSON may say 1e999, which no float holds."""
    value = float(number)
    return value if math.isfinite(value) else None


def _whole(number: str) -> int | None:
    """JSON may have integers of any length, which Python refuses beyond some thousand digits."""
    return int(number) if len(number) < LONGEST_INTEGER else None


def _object(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CompletionError(f"{name} must be an object, got {_shown(value)}")
    return value


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, dict):
        return "an object"
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _text(content: object) -> str:
    """What was said: a text, or parts of which some are texts and some are thoughts."""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") in ("text", None)]
        return "".join(_encodable(part.get("text")) for part in parts)
    if content is not None and not isinstance(content, str):
        raise CompletionError(
            f"choices[0].message.content must be a text or a list of parts, got {_shown(content)}"
        )
    return _encodable(content)


def _reasoning(message: Mapping[str, Any]) -> str:
    """What was thought, under each of the names that servers give it."""
    for name in ("reasoning_content", "reasoning"):
        if isinstance(message.get(name), str):
            return _encodable(message[name])
    content = message.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "".join(_encodable(part.get("thinking")) for part in parts if part.get("type") == "thinking")


def _encodable(value: object) -> str:
    """Give a text that UTF-8 can hold; nothing for no text."""
    return encodable(value) if isinstance(value, str) else ""


def count_of(value: object) -> int:
    """Give a count; 0 for what is none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return 0
    return value


def cost_of(value: object) -> float | None:
    """Give an amount of dollars; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    return float(value)
