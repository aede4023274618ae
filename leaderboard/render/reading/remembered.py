"""Remembers what was read of each entry, so that the next build reads those alone that have changed.

One file an entry, beside the site and never in it. They are pickles of our own, trusted as the code is:
whoever can write them can write the site. One that cannot be read counts as missing.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaderboard.render.stamp import code_stamp, digest

_UNREADABLE = (
    OSError,
    pickle.UnpicklingError,
    ValueError,
    EOFError,
    AttributeError,
    ImportError,
    TypeError,
    IndexError,
)
"""What a pickle raises that is missing, torn, or of other code."""

Print = tuple[str, int, int, str]
"""A file: its path, its size, its time in nanoseconds, and the digest of its content."""


@dataclass(frozen=True)
class Memory:
    """A folder of what was read; `stamp` names the code and the rules that it was read with."""

    folder: Path
    stamp: str

    def recall(self, entry: str, files: Sequence[Path]) -> Any:
        """Give what was made of an entry's files, where none has changed; None where one has."""
        try:
            stamp, prints, made = pickle.loads(self._path(entry).read_bytes())  # noqa: S301 -- our own file
        except _UNREADABLE:
            return None
        if stamp != self.stamp or [known[0] for known in prints] != [str(path) for path in files]:
            return None
        return made if all(_same(known) for known in prints) else None

    def keep(self, entry: str, files: Iterable[Path], made: Any) -> None:
        """Remember what was made of an entry's files."""
        prints = [_print(path) for path in files]
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / f".{entry}.partial"
        partial.write_bytes(pickle.dumps((self.stamp, prints, made), protocol=pickle.HIGHEST_PROTOCOL))
        partial.replace(self._path(entry))

    def forget(self, entries: frozenset[str]) -> None:
        """Remove what is known of all entries but these."""
        for path in self.folder.glob("*.pickle"):
            if path.stem not in entries:
                path.unlink()

    def _path(self, entry: str) -> Path:
        return self.folder / f"{entry}.pickle"


def stamp_of(certificates: Mapping[str, str]) -> str:
    """Name what entries are read with: the code, and the problems that do not rank."""
    return digest(code_stamp(), sorted(certificates.items()))


def _print(path: Path) -> Print:
    status = path.stat()
    return str(path), status.st_size, status.st_mtime_ns, _digest(path)


def _same(known: Print) -> bool:
    """Look at a file's size and time, and at its content where the time alone is another."""
    name, size, changed, digest = known
    try:
        status = Path(name).stat()
    except OSError:
        return False
    return status.st_size == size and (status.st_mtime_ns == changed or _digest(Path(name)) == digest)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
