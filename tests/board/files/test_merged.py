"""Which revision a board shows: the one about the merged file, until a newer version is merged."""

import dataclasses
import json
from pathlib import Path

import pytest
from fake_engine import GPU, rows_found_twice
from kernel_evaluator.problems.jobs import Job
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.rows import ResultFile, Status

from leaderboard.files import store, submission
from leaderboard.stages.boards import load_boards
from leaderboard.stages.standings import Standing

OLD_KERNEL, NEW_KERNEL = "# speedup 2.0\nclass ModelNew: ...\n", "# speedup 3.0\nclass ModelNew: ...\n"
ANOTHER_KERNEL = "# speedup 4.0\nclass ModelNew: ...\n"
ENTRY = "alice-first"


def entry(kernel: str, title: str = "Alice's") -> bytes:
    kernels = {"level_1_problem_19_sample_0": kernel}
    return json.dumps({"metadata": {"display_name": title}, "kernels": kernels}).encode()


def revision(number: int, raw: bytes) -> ResultFile:
    submitted = submission.parse(raw, f"{ENTRY}.json")
    jobs = [
        Job(
            key=key,
            source=source,
            problem=Problem(level=key.level, problem_id=key.problem_id, name="", source=""),
        )
        for key, source in submitted.kernels.items()
    ]
    environment = store.environment_name(GPU)
    rows = rows_found_twice(jobs)
    return ResultFile(
        entry=ENTRY,
        submission_sha256=submitted.sha256,
        gpu=GPU.gpu,
        sizes="full",
        profile="ranked",
        evaluator_version="0.1.0",
        started_at="2026-01-01T00:00:00Z",
        finished_at="2026-01-01T00:00:00Z",
        environments={environment: GPU},
        rows=tuple(dataclasses.replace(row, environment=environment) for row in rows),
        revision=number,
    )


def record(data: Path, result: ResultFile) -> None:
    store.write_atomically(store.recorded_path(data, GPU.gpu, ENTRY), store.dump_result(result))


def shown_where(data: Path, merged: bytes) -> Standing:
    """The entry's standing where this file is merged."""
    folder = data.parent / "submissions"
    (folder / f"{ENTRY}.json").write_bytes(merged)
    [board] = load_boards(data, folder)
    [standing] = board.standings
    return standing


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A result of a version with NEW_KERNEL that came after two of one with OLD_KERNEL."""
    data = tmp_path / "data"
    for number in (1, 2):
        path = store.history_path(data, GPU.gpu, ENTRY, number)
        store.write_atomically(path, store.dump_result(revision(number, entry(OLD_KERNEL))))
    record(data, revision(3, entry(NEW_KERNEL)))
    (tmp_path / "submissions").mkdir()
    return data


@pytest.mark.parametrize(
    ("merged", "shown", "rank", "why"),
    [
        (entry(OLD_KERNEL), 2, 1, ""),
        (entry(NEW_KERNEL), 3, 1, ""),
        (entry(OLD_KERNEL, "Alice's, retitled"), 2, 1, ""),
        (entry(ANOTHER_KERNEL), 3, None, "incomplete: 1 of 1 kernels wait for a verdict"),
    ],
)
def test_the_board_shows_the_revision_about_what_is_merged(
    data: Path, merged: bytes, shown: int, rank: int | None, why: str
) -> None:
    standing = shown_where(data, merged)
    assert (standing.result.revision, standing.rank, standing.unranked_because) == (shown, rank, why)


def test_a_row_without_a_verdict_does_not_take_the_place_of_an_earlier_verdict(data: Path) -> None:
    newest = revision(3, entry(OLD_KERNEL, "Alice's, retitled"))
    lost = dataclasses.replace(
        newest.rows[0],
        status=Status.INFRA_ERROR,
        **dict.fromkeys(("speedup", "speedup_ci95", "runtime_ms", "reference_ms")),
    )
    record(data, dataclasses.replace(newest, rows=(lost,)))
    standing = shown_where(data, entry(OLD_KERNEL, "Alice's, retitled again"))
    assert (standing.result.revision, standing.rank) == (2, 1)


def judged_again(before: ResultFile) -> ResultFile:
    """The same rows, of which the one is no longer correct."""
    row = dataclasses.replace(
        before.rows[0],
        status=Status.FRAGILE,
        evidence={"counter_example": {}},
        **dict.fromkeys(("speedup", "speedup_ci95", "runtime_ms", "reference_ms", "rounds", "second")),
    )
    return dataclasses.replace(before, rows=(row,))


@pytest.mark.parametrize("more", [{}, {"level_1_problem_20_sample_0": ANOTHER_KERNEL}])
def test_no_title_and_no_kernel_left_out_brings_back_a_verdict_that_was_overturned(
    data: Path, more: dict[str, str]
) -> None:
    later = json.loads(entry(OLD_KERNEL, "Alice's, retitled"))
    later["kernels"] |= more
    newest = revision(3, json.dumps(later).encode())
    judged = judged_again(newest).rows + newest.rows[1:]
    record(data, dataclasses.replace(newest, rows=judged))
    standing = shown_where(data, entry(OLD_KERNEL))
    assert (standing.overall.correct, standing.result.revision) == (0, 3)


def test_a_version_that_was_not_merged_and_judged_nothing_anew_is_not_shown(data: Path) -> None:
    later = json.loads(entry(OLD_KERNEL))
    later["kernels"]["level_1_problem_20_sample_0"] = ANOTHER_KERNEL
    record(data, revision(3, json.dumps(later).encode()))
    standing = shown_where(data, entry(OLD_KERNEL))
    assert (standing.overall.correct, standing.result.revision) == (1, 2)


def test_an_entry_that_was_never_merged_is_on_no_board(data: Path) -> None:
    assert () == load_boards(data, data.parent / "submissions")
