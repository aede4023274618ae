"""What of a model's thoughts goes into training data, and why some does not."""

from __future__ import annotations

import re
from dataclasses import dataclass

from leaderboard.generate.extract import thoughts_in
from leaderboard.generate.replies import KeptReply

_SPACE = re.compile(r"\s+")
_LETTER = re.compile(r"[^\W\d_]")
_LATIN = re.compile(r"[A-Za-zÀ-ÖØ-öø-ÿ]")
_SHORT = 200
"""Characters of a kernel below which its being in the thoughts says nothing."""


@dataclass(frozen=True, kw_only=True)
class Thinking:
    """Which thoughts are taken: none at all, or those that pass."""

    keep: bool = False
    max_characters: int = 60_000
    min_latin: float = 0.9
    """Share of Latin letters among all letters: models change the language when they think."""

    def of(self, reply: KeptReply) -> tuple[str, str]:
        """Give the thoughts to keep, and else the reason why the reply is left out."""
        if not self.keep:
            return "", ""
        thoughts = (reply.reasoning or thoughts_in(reply.text)).strip()
        if len(thoughts) > self.max_characters:
            return "", "thinking too long"
        letters = len(_LETTER.findall(thoughts))
        if letters and len(_LATIN.findall(thoughts)) / letters < self.min_latin:
            return "", "thinking in another script"
        if reply.code and len(reply.code) >= _SHORT and _flat(reply.code) in _flat(thoughts):
            return "", "thinking holds the whole answer"
        return thoughts, ""


def _flat(text: str) -> str:
    return _SPACE.sub("", text)
