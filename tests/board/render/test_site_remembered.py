"""What was read of an entry is remembered for as long as its files, and the code, are what they were."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import pytest
from kernel_evaluator.records.places import PROBLEM_SET

from leaderboard.render.reading.remembered import BuildMemory
from leaderboard.render.stamp import made_with

OURS = ("leaderboard", "kernel_evaluator")


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "result.json", tmp_path / "submission.json"]
    for path in paths:
        path.write_text(path.name)
    return paths


@pytest.fixture
def memory(tmp_path: Path, files: list[Path]) -> BuildMemory:
    kept = BuildMemory(tmp_path / "read", "code 1")
    kept.keep("mine", files, ["scores"])
    return kept


def test_what_has_not_changed_is_recalled_even_from_a_new_checkout(
    memory: BuildMemory, files: list[Path]
) -> None:
    assert memory.recall("mine", files) == ["scores"]
    os.utime(files[0], (1, 1))
    assert memory.recall("mine", files) == ["scores"]


def test_a_changed_a_missing_and_a_further_file_are_read_again(
    memory: BuildMemory, files: list[Path], tmp_path: Path
) -> None:
    further = tmp_path / "struck.json"
    further.write_text("[]")
    assert memory.recall("mine", [*files, further]) is None
    files[0].write_text("RESULT.json")
    os.utime(files[0], (1, 1))
    assert memory.recall("mine", files) is None
    files[0].unlink()
    assert memory.recall("mine", files) is None
    assert memory.recall("other", files) is None


def test_other_code_and_a_torn_file_count_as_nothing_known(memory: BuildMemory, files: list[Path]) -> None:
    assert BuildMemory(memory.folder, "code 2").recall("mine", files) is None
    path = memory.folder / "mine.pickle"
    path.write_bytes(path.read_bytes()[:-7])
    assert memory.recall("mine", files) is None


def test_entries_that_are_gone_are_forgotten(memory: BuildMemory) -> None:
    memory.forget(frozenset({"other"}))
    assert list(memory.folder.iterdir()) == []


def test_what_was_worked_out_is_known_to_the_next_build_of_the_same_code(memory: BuildMemory) -> None:
    known = memory.recall_known()
    known.all_of({"mine": "digest"}, lambda _: {"mine": (1.0, 2.0)})
    memory.keep_known(known)
    memory.forget(frozenset())
    assert memory.recall_known().get("digest") == (1.0, 2.0)
    assert BuildMemory(memory.folder, "code 2").recall_known().get("digest") is None
    (memory.folder / "known").write_bytes(b"torn")
    assert memory.recall_known().get("digest") is None


def test_no_code_that_pages_are_made_with_changes_unseen() -> None:
    import_module("leaderboard.render.reading.sources")
    ours = [module for name, module in sys.modules.items() if name.partition(".")[0] in OURS]
    assert {Path(module.__file__) for module in ours if module.__file__} <= set(made_with())
    assert PROBLEM_SET / "figures.json" in made_with()
