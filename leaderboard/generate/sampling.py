"""One sample: ask, find the kernel in the answer, have a look at it, and ask again where it cannot be one.

Once the regenerations are used up, the last complete answer stands, and the evaluator judges it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event

from kernel_evaluator.records.keys import KernelKey

from leaderboard.generate.completions import Completion
from leaderboard.generate.journal import Journal
from leaderboard.generate.looking import Looking, asking_again
from leaderboard.generate.models import Message, Model
from leaderboard.generate.patience import OnWait, Patience, ask
from leaderboard.generate.replies import Replies

_ENDS = {
    "length": "; it reached the limit of tokens: raise --max-tokens, or the server's own",
    "content_filter": "; the server's content filter ended it",
    "tool_calls": "; it calls a tool instead",
}
"""What a person should know of how an answer without a kernel ended, by the server's `finish_reason`."""


class NoKernelError(Exception):
    """No answer held a kernel, however often the model was asked. The message says what the last one held."""


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """Draws one kernel a call. Safe to share between threads."""

    model: Model
    journal: Journal
    replies: Replies
    looking: Looking
    patience: Patience
    stopped: Event
    regenerations: int = 3
    on_wait: OnWait = lambda why, wait_s: None

    def draw(self, key: KernelKey, messages: Sequence[Message], turn: int) -> str:
        """Give a kernel's source; raise NoKernelError or ModelError."""
        kept: str | None = None
        asked = list(messages)

        def note(why: str, wait_s: float) -> None:
            self.journal.add("retry", key, why=why[:300], wait_s=round(wait_s, 2))
            self.on_wait(why, wait_s)

        complaint = ""
        for attempt in range(self.regenerations + 1):
            reply = ask(
                self.model,
                asked,
                patience=self.patience,
                stopped=self.stopped,
                on_retry=note,
            )
            self.journal.add_reply(key, reply, turn=turn)
            look = self.looking.at(reply.text)
            self.replies.keep(
                key,
                reply,
                asked,
                turn=turn,
                attempt=attempt,
                code=look.code,
                complaint=look.complaint,
            )
            kept = look.code if look.code is not None else kept
            complaint = look.complaint
            if not complaint:
                break
            if attempt < self.regenerations:
                self.journal.add("regenerate", key, turn=turn, why=complaint)
                asked = [*messages, *_follow_up(reply, complaint)]
        if kept is None:
            raise NoKernelError(complaint + _ENDS.get(reply.finish_reason, ""))
        return kept


def _follow_up(reply: Completion, complaint: str) -> list[Message]:
    """Two messages that ask again. An empty answer is left out: servers refuse empty messages."""
    said = [{"role": "assistant", "content": reply.text}] if reply.text.strip() else []
    return [*said, {"role": "user", "content": asking_again(complaint)}]
