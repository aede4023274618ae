"""A table on terminals of several widths, and where there is none."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from leaderboard.texts.columns import as_columns

LINES = [
    {"rank": at, "entry": f"entry-{at}", **{f"figure {n}": n / 4 for n in range(9)}} for at in range(1, 4)
]


@contextmanager
def terminal(columns: int) -> Iterator[None]:
    ours, theirs = os.openpty()
    with open(theirs, "w") as screen, pytest.MonkeyPatch.context() as patched:  # noqa: PTH123  a descriptor
        patched.setattr(sys, "stdout", screen)
        patched.setenv("COLUMNS", str(columns))
        yield
    os.close(ours)


@pytest.mark.parametrize(("width", "blocks"), [(80, 2), (40, 5), (20, 9), (300, 1)])
def test_columns_that_a_terminal_cannot_hold_stand_below_with_who_they_are_of(
    width: int, blocks: int
) -> None:
    with terminal(width):
        found = as_columns(LINES, "simple", kept=2).split("\n\n")
    assert blocks == len(found)
    assert all(block.splitlines()[2].split()[:2] == ["1", "entry-1"] for block in found)
    assert width < 30 or max(len(line) for block in found for line in block.splitlines()) <= width
    figures = [figure for block in found for figure in block.splitlines()[2].split()[2:]]
    assert [f"{n / 4:.3f}" for n in range(9)] == figures


def test_a_file_gets_one_table_however_narrow_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setenv("COLUMNS", "40")
    assert len(LINES) + 2 == len(as_columns(LINES, "simple").splitlines())
    assert as_columns([], "simple") == ""


def test_a_name_that_looks_like_a_number_stays_a_name() -> None:
    lines = [{"entry": name, "geomean": 2.0} for name in ("4.5", "1e5", "007")]
    assert ["4.5", "1e5", "007"] == [line.split()[0] for line in as_columns(lines, "simple").splitlines()[2:]]
    assert "2.000" in as_columns(lines, "github")
