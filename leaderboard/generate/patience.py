"""Patience with failing servers: repeats requests, waiting longer each time, and as long as servers ask."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event

from leaderboard.generate.completions import Completion
from leaderboard.generate.models import Message, Model, ModelError, TransientError

OnWait = Callable[[str, float], object]
"""Called before a pause for a failing server, by any thread: the reason, and the pause in seconds."""

_MOST_DOUBLINGS = 100
"""Far beyond the longest wait, and far below what a float cannot hold."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How often and how long a failing server is asked again.

    Waits double up to `longest_s`, with jitter. A server may wish for more, up to `longest_wish_s`.
    """

    attempts: int = 8
    first_s: float = 1.0
    longest_s: float = 60.0
    longest_wish_s: float = 3600.0

    def wait_s(self, attempt: int, retry_after_s: float | None) -> float:
        """Give the pause before the attempt after this one (counted from 1); the server's own wish counts."""
        backoff = min(self.longest_s, self.first_s * 2.0 ** min(attempt - 1, _MOST_DOUBLINGS))
        return max(backoff * random.uniform(0.5, 1.0), min(retry_after_s or 0.0, self.longest_wish_s))


def ask(
    model: Model,
    messages: Sequence[Message],
    *,
    patience: Patience,
    stopped: Event,
    on_retry: OnWait,
) -> Completion:
    """Ask until there is an answer; raise ModelError once patience ends or the run is stopped."""
    for attempt in range(1, patience.attempts + 1):
        if stopped.is_set():
            raise ModelError("stopped before the server was asked")
        try:
            return model.complete(messages)
        except TransientError as error:
            if attempt == patience.attempts:
                tried = f"no answer after {attempt} attempts, the last one: {error}"
                raise ModelError(f"{tried}; run it again") from error
            wait_s = patience.wait_s(attempt, error.retry_after_s)
            on_retry(str(error), wait_s)
            if stopped.wait(wait_s):
                raise ModelError("stopped while waiting for the server") from error
    raise ValueError(f"attempts must be at least 1, got {patience.attempts}")
