"""A short week of a board, as `kbl ci rehearse` lets a long one happen: what is said at its end is true."""

from pathlib import Path

import pytest

pytest.importorskip("github")

from fakes.rehearsal import FATES, rehearse
from fakes.week import a_board

ROOT = Path(__file__).resolve().parents[3]


def test_at_the_end_of_a_week_every_pull_request_is_told_the_truth(tmp_path: Path) -> None:
    told: list[str] = []
    with a_board(tmp_path, told.append, at_once=4) as week:
        wrong = rehearse(week, entries=18)

    assert [] == wrong, "\n".join(told)
    limits = sum("the host's allowance is used up" in line for line in told)
    assert limits >= len(week.asked_twice), "else replies could be cached, with their ETags"
    for number, fate in FATES.items():
        if number <= 18:
            assert any(f"#{number} is {fate}" in line for line in told)


def test_the_transcript_in_the_docs_is_one_where_all_was_well() -> None:
    transcript = (ROOT / "docs/rehearsal.md").read_text("utf-8")

    assert "50 pull requests" in transcript
    assert "10 at once at most" in transcript
    assert "WRONG" not in transcript
