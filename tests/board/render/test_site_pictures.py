"""Pictures for link previews: every sign is drawn, or the build says which names it could not draw."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sitehouse
from typer.testing import CliRunner

from leaderboard.cli import app
from leaderboard.render import BuildReport, places
from leaderboard.render.output import SiteFolder
from leaderboard.render.pages import pictures
from leaderboard.render.site import Site

CUNEIFORM = "\U00012000 Lab e\u0301"
"""A sign that no font here has, and a mark that clings to a letter."""

needs_a_font = pytest.mark.skipif(
    not pictures._fonts_here(), reason="no font is here: apt-get install fonts-dejavu-core"
)


def site_of(**names: str) -> Any:
    """Stand for a site with these entries."""
    lines = [
        SimpleNamespace(name=name, organization="", standing=SimpleNamespace(entry=entry))
        for entry, name in names.items()
    ]
    return cast(Any, SimpleNamespace(boards=[SimpleNamespace(entries=lines)]))


@needs_a_font
def test_names_that_no_font_here_has_are_found() -> None:
    assert pictures.not_covered(site_of(plain="Model 1", far="Быстрые ядра, e\u0301", old=CUNEIFORM)) == [
        "old"
    ]


@needs_a_font
def test_each_part_of_a_text_is_drawn_in_a_font_that_has_it() -> None:
    parts = pictures._parts(CUNEIFORM)
    assert [text for _, text in parts] == ["\U00012000 ", "Lab e\u0301"]
    assert parts[0][0] == "" != parts[1][0]


def test_a_build_says_in_one_line_which_names_it_could_not_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    report = BuildReport(
        written=0, unchanged=0, removed=0, files=0, size_bytes=0, seconds=0.0, not_covered=["a", "b"]
    )
    monkeypatch.setattr("leaderboard.render.build_site", lambda *_: report)
    monkeypatch.setattr("leaderboard.render.reading.sources.read_site", lambda *_: None)
    said = CliRunner().invoke(app, ["site", "build", "--out", "never"]).stderr
    assert "no font here has all signs of the names of a, b: pictures show their ids" in said
    assert said.count("\n") == 1


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Site, dict[str, Any]]:
    """The site of the tests, and what stands on each picture instead of the picture."""
    sheets: dict[str, Any] = {}
    monkeypatch.setattr(pictures, "_write", lambda _, name, sheet: sheets.update({name: sheet}))
    return Site(sitehouse.read(sitehouse.repository()), SiteFolder(tmp_path / "out")), sheets


def test_an_entry_on_two_boards_is_one_on_the_picture_of_the_site(drawn: tuple[Site, dict[str, Any]]) -> None:
    site, sheets = drawn
    sent = [entry for view in site.boards for entry in view.names if entry not in view.baselines]
    assert len(set(sent)) < len(sent)
    pictures.write_site_picture(site)
    assert ("entries", str(len(set(sent))), "") in sheets[pictures.SITE_PICTURE].below


def test_a_board_s_picture_says_as_its_page_who_is_first(drawn: tuple[Site, dict[str, Any]]) -> None:
    site, sheets = drawn
    for view in site.boards:
        pictures.write_board_picture(site, view)
        best = view.best
        if best is not None and view.sent > 1:
            place = "first" if best.sharing == 1 else "among the first"
            said = sheets[places.board_picture(view.name)].subtitle
            assert said.endswith(f", {place} of {view.sent} entries")
