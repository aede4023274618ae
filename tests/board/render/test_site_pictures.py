"""Pictures for link previews: every sign is drawn, or the build says which names it could not draw."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from leaderboard.cli import app
from leaderboard.render import BuildReport
from leaderboard.render.pages import pictures

CUNEIFORM = "\U00012000 Lab e\u0301"
"""A sign that no font here has, and a mark that clings to a letter."""


def site_of(**names: str) -> Any:
    """Stand for a site with these entries."""
    lines = [
        SimpleNamespace(name=name, organization="", standing=SimpleNamespace(entry=entry))
        for entry, name in names.items()
    ]
    return cast(Any, SimpleNamespace(boards=[SimpleNamespace(entries=lines)]))


def test_names_that_no_font_here_has_are_found() -> None:
    assert pictures.not_covered(site_of(plain="Model 1", far="Быстрые ядра, e\u0301", old=CUNEIFORM)) == [
        "old"
    ]


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
