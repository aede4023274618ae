"""What work files of one entry have in common and what each adds: parts of an evaluation become one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import ResultFile, Row

from leaderboard.files import store
from leaderboard.files.workfile import with_rows


def joined(parts: Mapping[Path, ResultFile], data: Path) -> list[tuple[ResultFile, list[Path]]]:
    """Make one work file of the parts of an evaluation; say which files each came from.

    Parts say something new of different kernels. What is on record already they may all hold.
    """
    found: list[tuple[ResultFile, list[Path]]] = []
    for path, part in parts.items():
        known = _recorded_rows(store.recorded_path(data, part.board, part.entry))
        at = next((at for at, (whole, _) in enumerate(found) if _is_part(part, whole, known)), None)
        if at is None:
            found.append((part, [path]))
        else:
            found[at] = (_both(found[at][0], part, known), [*found[at][1], path])
    return found


def _recorded_rows(path: Path) -> tuple[Row, ...]:
    try:
        return store.read_result(path).rows if path.is_file() else ()
    except store.StoreError:
        return ()  # to record says what is wrong with it


def _is_part(part: ResultFile, whole: ResultFile, known: Sequence[Row]) -> bool:
    names = ("board", "entry", "submission_sha256", "sizes", "profile", "schema_version")
    if any(getattr(part, name) != getattr(whole, name) for name in names):
        return False
    are_sums_right = not any(wrong_totals(part)) and not any(wrong_totals(whole))
    return are_sums_right and not fresh(part, known).keys() & fresh(whole, known).keys()


def _both(one: ResultFile, other: ResultFile, known: Sequence[Row]) -> ResultFile:
    rows = {row.key: row for part in (one, other) for row in part.rows}
    whole = dataclasses.replace(
        one,
        started_at=min(one.started_at, other.started_at),
        finished_at=max(one.finished_at, other.finished_at),
    )
    environments = {**one.environments, **other.environments}
    return with_rows(whole, rows | fresh(one, known) | fresh(other, known), environments)


def fresh(part: ResultFile, known: Sequence[Row]) -> dict[KernelKey, Row]:
    """The rows of a part that are not on record, just as they are."""
    recorded = {row.key: row for row in known}
    return {row.key: row for row in part.rows if row != recorded.get(row.key)}


def wrong_totals(result: ResultFile) -> Iterator[str]:
    """Say which of the seconds spent are not the sums of the rows'."""
    for name in ("gpu_seconds", "cpu_seconds"):
        total = sum(getattr(row, name) for row in result.rows)
        claimed = getattr(result, name)
        if abs(total - claimed) > 1e-6 * max(1.0, total):
            yield f"{name} must be the rows' sum {total:.6g}, got {claimed:.6g}"
