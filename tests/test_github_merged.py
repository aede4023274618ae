"""Which revision the board shows: the one about the merged file, until a newer version is merged."""

import dataclasses
import hashlib
from pathlib import Path

import pytest
from kernelbench.rows import ResultFile

from leaderboard import store
from leaderboard.github.merged import settle_results

OLD, NEW = b"the merged version", b"the version in a pull request"


def revision(number: int, raw: bytes) -> ResultFile:
    return ResultFile(
        entry="alice-first",
        submission_sha256=hashlib.sha256(raw).hexdigest(),
        gpu="CPU",
        sizes="full",
        profile="ranked",
        evaluator_version="0.1.0",
        started_at="2026-01-01T00:00:00Z",
        finished_at="2026-01-01T00:00:00Z",
        environments={},
        rows=(),
        revision=number,
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A result of version NEW that came after one of version OLD."""
    data = tmp_path / "data"
    for number, raw in ((1, OLD), (2, OLD)):
        path = store.history_path(data, "CPU", "alice-first", number)
        store.write_atomically(path, store.dump_result(revision(number, raw)))
    current = dataclasses.replace(revision(3, NEW), reason="the submission changed")
    store.write_atomically(store.recorded_path(data, "CPU", "alice-first"), store.dump_result(current))
    (tmp_path / "submissions").mkdir()
    return data


@pytest.mark.parametrize(("merged", "shown"), [(OLD, 2), (NEW, 3), (b"another version", 3), (None, 3)])
def test_the_newest_revision_of_the_merged_file_is_shown(
    data: Path, merged: bytes | None, shown: int
) -> None:
    if merged is not None:
        (data.parent / "submissions/alice-first.json").write_bytes(merged)
    settle_results(data, data.parent / "submissions")

    (result,) = store.recorded_results(data)
    assert shown == result.revision
