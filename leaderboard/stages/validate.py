"""The stage `validate`: reads submissions as inert text and lists every mistake at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from leaderboard.checks.report import MAX_SHOWN, Report, validate_file


def validate(paths: Iterable[Path], most: int = MAX_SHOWN) -> Iterator[Report]:
    """Check every file, and in every folder all that is no `README.md` and not hidden, one by one."""
    for path in paths:
        for file_path in _submissions(path):
            yield validate_file(file_path, most)


def _submissions(path: Path) -> Sequence[Path]:
    """The files of a folder; what is no folder, or cannot be listed, stands for itself."""
    try:
        if path.is_symlink() or not path.is_dir():
            return [path]
        return sorted(item for item in path.iterdir() if item.name[0] != "." and item.name != "README.md")
    except OSError:
        return [path]
