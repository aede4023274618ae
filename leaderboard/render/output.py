"""Writes the site's files: only those whose content changed, atomically, and removes those it wants no more.

Knows nothing of what the files say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from isal import igzip  # six times as fast as zlib, for files a tenth larger

from leaderboard.files.store import naming, written_beside
from leaderboard.texts.inert import visible_json

_MARK = ".kbl-files"
"""Lists what builds wrote. It lies inside, so that another folder of the same name is not taken for ours."""
_STATE = ".kbl-state.json"
_UNSEEN = re.compile(r"\\[ubfr]")
"""Escapes of JSON that may stand for what no reader sees."""


class OccupiedError(Exception):
    """The output folder holds what no build of the site made."""


class SiteFolder:
    """One build's view of the output folder. Workers have their own and hand `kept` and the counts back.

    `before` names what the last build made some files from, `made` what this one did.
    """

    def __init__(self, root: Path, before: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.before = before or {}
        self.made: dict[str, str] = {}
        self.kept: set[str] = set()
        self.written = 0
        self.unchanged = 0
        self._folders: set[Path] = set()

    def write(self, name: str, content: str | bytes) -> None:
        """Write one file unless it already says the same."""
        data = content.encode("utf-8", "replace") if isinstance(content, str) else content
        path = self.root / name
        self.kept.add(name)
        known = _content(path)
        if known == data:
            self.unchanged += 1
            return
        if path.parent not in self._folders:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._folders.add(path.parent)
        if known is None:
            # First, so that an interrupted build leaves nothing unnoted; a torn line spoils no other.
            with naming(path), (self.root / _MARK).open("a", encoding="utf-8") as mark:
                mark.write(f"\n{name}")
        replace_file(path, data)
        self.written += 1

    def write_json(self, name: str, value: Any) -> None:
        """Write a value as compact JSON in a stable order of keys as given, with its texts made visible."""
        self.write(name, _as_json(value) + "\n")

    def write_packed(self, name: str, value: Any) -> None:
        """Write a value as compact JSON, compressed, with its texts made visible."""
        self.write(name, compressed(_as_json(value)))

    def write_made(self, name: str, source: str, make: Callable[[], str | bytes]) -> None:
        """Make a file and write it, unless the last build made it from the same, which `source` names."""
        self.made[name] = source
        if self.before.get(name) != source or not self.keep(name):
            self.write(name, make())

    def keep(self, name: str) -> bool:
        """Keep a file of an earlier build as it is; False where it is not there."""
        if not (self.root / name).is_file():
            return False
        self.kept.add(name)
        self.unchanged += 1
        return True

    def merge(self, other: SiteFolder) -> None:
        """Take over what a worker wrote and kept."""
        self.kept |= other.kept
        self.made |= other.made
        self.written += other.written
        self.unchanged += other.unchanged

    def remove_stale(self) -> int:
        """Remove what builds wrote but this one did not ask for, and folders left empty; count the files."""
        noted = (self.root / _MARK).read_text("utf-8").split("\n")
        stale = [path for name in {*noted} - self.kept if (path := self.root / name).is_file()]
        for path in stale:
            path.unlink()
            for folder in path.parents:
                if folder == self.root or any(folder.iterdir()):
                    break
                folder.rmdir()
        self.write(_MARK, "\n".join(sorted(self.kept)))
        return len(stale)

    def made_from(self) -> dict[str, str]:
        """Name what each file that was made lately, or kept, was made from."""
        return {name: source for name, source in {**self.before, **self.made}.items() if name in self.kept}

    def size_bytes(self) -> int:
        """Add up the bytes of the files kept."""
        return sum((self.root / name).stat().st_size for name in self.kept)


def claim(out: Path) -> None:
    """Make a folder the site's own, in which builds replace files, and remove those that they wrote.

    Raises OccupiedError as `require_free` does.
    """
    require_free(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / _MARK).touch()


def require_free(out: Path) -> None:
    """Raise OccupiedError where a folder holds something and no build's mark."""
    if not (out / _MARK).is_file() and out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise OccupiedError(
            f"--out must be an empty folder, or a site that kbl built, got {out}: "
            "pages would replace files in it; name another folder, or empty this one"
        )


def read_state(out: Path) -> dict[str, Any]:
    """Read what the last build noted in its output folder; empty where it noted nothing readable."""
    try:
        state = json.loads((out / _STATE).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def write_state(out: Path, state: Mapping[str, Any]) -> None:
    """Note in the output folder what the next build may skip."""
    replace_file(out / _STATE, json.dumps(state, sort_keys=True).encode())


def compressed(text: str | bytes) -> bytes:
    """Compress to bytes that depend on the content alone."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return igzip.compress(data, 3, mtime=0)


def _as_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if text.isprintable() and not _UNSEEN.search(text):  # ten times as fast as to look at every text
        return text
    return json.dumps(visible_json(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def replace_file(path: Path, data: bytes) -> None:
    """Write beside and rename, so that no half file ever stands."""
    with written_beside(path) as beside:
        beside.write_bytes(data)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
