"""The site shows what was judged again, and what rows stand on."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
import sitehouse

from leaderboard.files.reviews import Review, add_review, read_reviews
from leaderboard.files.store import StoreError
from leaderboard.render.audits import read_audits
from leaderboard.render.pages.entries import stands_on


def test_the_trust_page_says_what_was_looked_at_when_and_what_came_out() -> None:
    text = (sitehouse.site() / "trust.html").read_text("utf-8")
    section = text.split('id="audits"')[1].split('id="log"')[0]
    assert '<time datetime="2026-11-20">' in section
    assert '<td class="n">2</td><td class="n"><strong>1</strong></td>' in section
    assert "1 differ" in section
    assert "2.00×, again 2.02×" in section
    assert "speedup was 2.000, is &lt;b&gt;1.000&lt;/b&gt;" in section


def test_the_boards_own_audits_can_be_read() -> None:
    audits = read_audits(sitehouse.ROOT / "data")
    assert {audit.entry for audit in audits} >= {"founders-triton", "founders-cuda"}
    assert all(audit.looks and audit.finished_at for audit in audits)


@pytest.mark.parametrize("text", ["{}", "[{}]", '[{"key": "level_1", "before": {}, "after": {}}]', "[1"])
def test_a_broken_audit_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "audits" / "H200" / "mine" / "1.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    if text == "{}":
        assert read_audits(tmp_path) == ()
        return
    with pytest.raises(StoreError, match=r"mine/1\.json"):
        read_audits(tmp_path)


def test_an_audit_in_the_folder_of_another_board_is_named(tmp_path: Path) -> None:
    (known,) = (sitehouse.ROOT / "data/audits/H200/founders-cuda").glob("*.json")
    path = tmp_path / "audits/H2O0/founders-cuda" / known.name
    path.parent.mkdir(parents=True)
    path.write_bytes(known.read_bytes())
    with pytest.raises(StoreError, match=rf"{known.name}: nothing is recorded of founders-cuda on H2O0"):
        read_audits(tmp_path)


def test_an_entrys_data_say_what_its_rows_stand_on() -> None:
    packed = (sitehouse.site() / "api/v1/entries/H200/torch-eager.json.gz").read_bytes()
    rows = json.loads(gzip.decompress(packed))["rows"]
    (found,) = [row["stands_on"] for row in rows if "stands_on" in row]
    assert {name: found[name] for name in ("panel_passed", "panel_asked", "sharp_share")} == {
        "panel_passed": 9,
        "panel_asked": 9,
        "sharp_share": 0.75,
    }
    assert found["rounds_counted"] == found["rounds_made"] > 10
    assert found["evaluations"] == 1


def test_real_rows_stand_on_their_rounds_and_walls() -> None:
    recorded = json.loads((sitehouse.ROOT / "tests/golden/rows-H200/founders-triton.json").read_text())
    found = stands_on(recorded)
    assert len(found) == sum(row["status"] == "correct" for row in recorded["rows"])
    assert all(item["stands_on"]["walls"] == 10 for item in found.values())


def test_second_looks_and_appeals_stand_among_audits(tmp_path: Path) -> None:
    key = "level_2_problem_76_sample_0"
    known = {"run": 1, "board": "H100", "entry": "mine", "revision": 2, "kernels": 40}
    add_review(tmp_path, Review(**known, day="2026-11-20", verb="second-look", differs={key: "was correct"}))
    add_review(tmp_path, Review(**{**known, "run": 2}, day="2026-11-21", verb="again", differs={}))
    appeal, look = read_audits(tmp_path)
    assert (appeal.what, appeal.kernels, appeal.held, appeal.looks) == ("appeal", 40, 40, ())
    assert (look.what, look.kernels, look.held, look.looks[0].problem) == ("second look", 40, 39, "2_76")


def test_a_review_takes_the_place_of_what_was_said_of_the_same_revision_alone(tmp_path: Path) -> None:
    known = {"run": 1, "day": "2026-11-20", "verb": "second-look", "board": "H100", "kernels": 40}
    first = Review(**known, entry="mine", revision=2, differs={})
    for review in (
        replace(first, kernels=39),
        first,  # published again
        replace(first, revision=3),  # the run was run again
        replace(first, entry="other"),
    ):
        add_review(tmp_path, review)
    said = [(review.entry, review.revision, review.kernels) for review in read_reviews(tmp_path)]
    assert sorted(said) == [("mine", 2, 40), ("mine", 3, 40), ("other", 2, 40)]
