"""Writes the site's files: only those whose content changed, atomically, and removes those nobody asked for.

Knows nothing of what the files say.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class OccupiedError(Exception):
    """The output folder holds what no build of the site made."""


class SiteFolder:
    """One build's view of the output folder. Workers have their own and hand `kept` and the counts back."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kept: set[str] = set()
        self.written = 0
        self.unchanged = 0
        self._made: set[Path] = set()

    def write(self, name: str, content: str | bytes) -> None:
        """Write one file unless it already says the same."""
        data = content.encode("utf-8", "replace") if isinstance(content, str) else content
        path = self.root / name
        self.kept.add(name)
        known = _content(path)
        if known == data:
            self.unchanged += 1
            return
        if path.parent not in self._made:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(path.parent)
        if known is None:
            path.write_bytes(data)  # nobody reads yet what was not there
        else:
            partial = path.with_name(f".{path.name}.partial")
            partial.write_bytes(data)
            partial.replace(path)
        self.written += 1

    def write_json(self, name: str, value: Any) -> None:
        """Write a value as compact JSON in a stable order of keys as given."""
        self.write(name, json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n")

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
        self.written += other.written
        self.unchanged += other.unchanged

    def remove_stale(self) -> int:
        """Remove files that this build did not ask for, and folders left empty; return how many files."""
        removed = 0
        for folder, _, names in os.walk(self.root, topdown=False):
            here = Path(folder)
            for name in names:
                path = here / name
                if path.relative_to(self.root).as_posix() not in self.kept:
                    path.unlink()
                    removed += 1
            if here != self.root and not any(here.iterdir()):
                here.rmdir()
        return removed

    def size_bytes(self) -> int:
        """Add up the bytes of the files kept."""
        return sum((self.root / name).stat().st_size for name in self.kept)


def claim(out: Path) -> None:
    """Make a folder the site's own, from which builds remove what they did not ask for.

    Raises OccupiedError where it holds something that no build noted: that would be removed too.
    """
    is_ours = _state_path(out).is_file()
    if not is_ours and out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise OccupiedError(
            f"--out must be an empty folder, or a site that kbl built, got {out}: "
            "all else in it would be removed; name another folder, or empty this one"
        )
    out.mkdir(parents=True, exist_ok=True)
    if not is_ours:
        write_state(out, {})


def read_state(out: Path) -> dict[str, Any]:
    """Read what the last build noted beside its output folder; empty where it noted nothing readable."""
    try:
        state = json.loads(_state_path(out).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def write_state(out: Path, state: Mapping[str, Any]) -> None:
    """Note beside the output folder what the next build may skip."""
    path = _state_path(out)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(state, sort_keys=True), "utf-8")
    partial.replace(path)


def _state_path(out: Path) -> Path:
    place = out.resolve()
    return place.parent / f"{place.name}.state.json"


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
