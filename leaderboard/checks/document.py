"""What a check looks at, and what it finds. The layers of a document are read only when first asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from leaderboard.texts.json_positions import Walk, pointer_of, walk

MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_KERNEL_BYTES = 512 * 1024


@dataclass(frozen=True, kw_only=True)
class Spot:
    """One mistake at a character of the text (for undecodable bytes: at a byte of the file)."""

    offset: int
    message: str
    mend: str


@dataclass(frozen=True)
class Document:
    """One submission's bytes under its file name.

    A layer raises ValueError where an earlier check should have stopped.
    """

    name: str
    raw: bytes

    @cached_property
    def text(self) -> str:
        """The file as text."""
        return self.raw.decode("utf-8")

    @cached_property
    def walk(self) -> Walk:
        """Where everything stands in the text."""
        return walk(self.text)

    @cached_property
    def value(self) -> object:
        """The JSON value; of repeated keys the last."""
        return json.loads(self.text)

    def offset(self, *path: str | int) -> int:
        """Where the value at a path of keys and indices stands; the beginning where there is none."""
        return self.walk.values.get(pointer_of(path), 0)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata, whatever its fields hold; empty where it is no object."""
        metadata = self.value.get("metadata") if isinstance(self.value, dict) else None
        return metadata if isinstance(metadata, dict) else {}

    @cached_property
    def kernels(self) -> dict[str, str]:
        """The kernels that are strings, under whatever keys they have."""
        kernels = self.value.get("kernels") if isinstance(self.value, dict) else None
        if not isinstance(kernels, dict):
            return {}
        return {key: source for key, source in kernels.items() if isinstance(source, str)}


@dataclass(frozen=True)
class Check:
    """One named rule. `stops` says that what breaks the rule cannot be read any further."""

    rule: str
    find: Callable[[Document], Iterator[Spot]]
    stops: bool = False


def quoted(text: str, limit: int = 60) -> str:
    """Show untrusted text on one line: escaped, in quotes, cut at `limit` characters."""
    cut = text if len(text) <= limit else f"{text[:limit]}…"
    return repr(cut)
