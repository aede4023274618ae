"""What was worked out of the same figures before, kept by what it comes from. Reads and writes no file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kernel_evaluator import scores

Made = TypeVar("Made")


class Known:
    """Results by the digest of all that they hang on. `used` holds those that were asked for since."""

    def __init__(self, before: Mapping[str, Any] | None = None) -> None:
        self._before = before or {}
        self.used: dict[str, Any] = {}

    def get(self, digest: str) -> Any:
        """Give what came of the same before; None where nothing is known."""
        found = self.used.get(digest, self._before.get(digest))
        if found is not None:
            self.used[digest] = found
        return found

    def all_of(
        self, digests: Mapping[str, str], make: Callable[[list[str]], Mapping[str, Made]]
    ) -> dict[str, Made]:
        """Give one result a name, by the names' digests; `make` makes those that are missing, all at once."""
        missing = [name for name, digest in digests.items() if self.get(digest) is None]
        if missing:
            self.used |= {digests[name]: made for name, made in make(missing).items()}
        return {name: self.used[digest] for name, digest in digests.items()}


def digest_of(what: str, *figures: scores.Gains) -> str:
    """Name what hangs on some figures."""
    found = hashlib.sha256(what.encode())
    for item in figures:
        found.update(item.tobytes())
        found.update(b"\0")
    return found.hexdigest()
