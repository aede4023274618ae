"""The check of `metadata.backend` against what the board's image has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from kernel_evaluator.engines.epoch import BACKENDS

from leaderboard.checks.document import Document, Spot, quoted

_BETWEEN = re.compile(r"(?<!\+)\+(?!\+)|[,;/&]| and | with ", re.IGNORECASE)


def backend_known(document: Document) -> Iterator[Spot]:
    """Point at backends that no part of the board's image stands for; several are joined by `+`."""
    written = document.metadata.get("backend")
    if not isinstance(written, str):
        return
    known = {_plain(name): name for name in BACKENDS}
    for name in filter(None, map(str.strip, _BETWEEN.split(written))):
        if _plain(name) not in known:
            close = get_close_matches(_plain(name), known, n=1)
            mend = f"write {known[close[0]]}" if close else f"the image has {', '.join(BACKENDS)}"
            found = f"metadata.backend names {quoted(name)}, which the board's image does not have"
            yield Spot(offset=document.offset("metadata", "backend"), message=found, mend=mend)


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.lower())
