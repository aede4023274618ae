"""The stage `validate`: reads submissions as inert text and lists every mistake at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from leaderboard.checks.report import MAX_SHOWN, Report, report_nothing_in, validate_file

_KEEPS_FOLDER = "README.md"


def validate(paths: Iterable[Path], most: int = MAX_SHOWN) -> Iterator[Report]:
    """Check every file, and in every folder all that is no `README.md` and not hidden, one by one.

    A folder that holds nothing is a report too. One with a `README.md` is kept for entries to come.
    """
    for path in paths:
        found = _submissions(path)
        if not found and not (path / _KEEPS_FOLDER).exists():
            yield report_nothing_in(path)
        for file_path in found:
            yield validate_file(file_path, most)


def _submissions(path: Path) -> Sequence[Path]:
    """The files of a folder; what is no folder, or cannot be listed, stands for itself."""
    try:
        if path.is_symlink() or not path.is_dir():
            return [path]
        return sorted(item for item in path.iterdir() if item.name[0] != "." and item.name != _KEEPS_FOLDER)
    except OSError:
        return [path]
