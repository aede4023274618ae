"""Remembers what was read of each entry, so that the next build reads those alone that have changed.

One file an entry, and one for what was worked out of all, beside the site and never in it. They are pickles
of our own, trusted as the code is: whoever can write them can write the site. One that cannot be read counts
as missing.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaderboard.render.output import replace_file
from leaderboard.render.stamp import code_stamp, digest
from leaderboard.stages.aggregate import Certificates
from leaderboard.stages.known import Known

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

_KNOWN = "known"
"""The file of what was worked out; those of entries end in `.pickle`."""

Print = tuple[str, int, int, str]
"""A file: its path, its size, its time in nanoseconds, and the digest of its content."""


@dataclass(frozen=True)
class BuildMemory:
    """A folder of what was read; `stamp` names the code and the rules that it was read with."""

    folder: Path
    stamp: str

    def recall(self, entry: str, files: Sequence[Path]) -> Any:
        """Give what was made of an entry's files, where none has changed; None where one has."""
        stamp, prints, made = _read(self._path(entry)) or ("", (), None)
        if stamp != self.stamp or [known[0] for known in prints] != [str(path) for path in files]:
            return None
        return made if all(_same(known) for known in prints) else None

    def keep(self, entry: str, files: Iterable[Path], made: Any) -> None:
        """Remember what was made of an entry's files."""
        self._write(self._path(entry), (self.stamp, [_print(path) for path in files], made))

    def recall_known(self) -> Known:
        """Give what earlier builds worked out."""
        stamp, used = _read(self.folder / _KNOWN) or ("", {})
        return Known(used if stamp == self.stamp else {})

    def keep_known(self, known: Known) -> None:
        """Remember what this build asked for."""
        self._write(self.folder / _KNOWN, (self.stamp, known.used))

    def forget(self, entries: frozenset[str]) -> None:
        """Remove what is known of all entries but these."""
        for path in self.folder.glob("*.pickle"):
            if path.stem not in entries:
                path.unlink()

    def _path(self, entry: str) -> Path:
        return self.folder / f"{entry}.pickle"

    def _write(self, path: Path, value: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))


def _read(path: Path) -> Any:
    try:
        return pickle.loads(path.read_bytes())  # noqa: S301 -- our own file
    except _UNREADABLE:
        return None


def stamp_of(certificates: Certificates) -> str:
    """Name what entries are read with: the code, and the problems that do not rank."""
    return digest(code_stamp(), sorted((name, sorted(found.items())) for name, found in certificates.items()))


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
