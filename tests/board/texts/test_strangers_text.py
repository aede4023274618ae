"""What strangers wrote is text, wherever it is shown: terminals, logs, comments, pages."""

from __future__ import annotations

import json
import re
import shutil
import unicodedata
from pathlib import Path
from xml.etree import ElementTree

import pytest
from kernel_evaluator.problems.jobs import Job, unmeasured_row
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Failure, Row, Status

from leaderboard.show.comment import PullReport, ScoredRun, render_comment
from leaderboard.show.progress import Reporter
from leaderboard.texts.inert import cell, code_span, fence, log_text, shorten, visible
from leaderboard.texts.say import say

BOARD = Path(__file__).resolve().parents[3] / "leaderboard"
HARMFUL = "".join(
    sign
    for code in range(0x110000)
    if unicodedata.category(sign := chr(code)) in ("Cc", "Cf") and sign not in "\n\t\r"
)
TEXT = f"before\x1b[2J\x1b]0;title\x07{HARMFUL}after"


def harm_in(text: str) -> set[str]:
    return set(text) & set(HARMFUL)


def row() -> Row:
    job = Job(key=KernelKey(1, 19), source="", problem=ProblemSet().load(1, 19))
    return unmeasured_row(job, Status.RUNTIME_ERROR, Failure(name=TEXT, message=TEXT, log=TEXT))


def test_a_terminal_gets_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    say(TEXT)
    say(TEXT, err=True)
    say("90 %\rdone", err=True)

    shown = capsys.readouterr()
    assert ("beforeafter\n", "beforeafter\n90 %\ndone\n") == (shown.out, shown.err)


def test_a_verdicts_line_gets_none_either(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    reporter = Reporter()
    with reporter.over(1):
        reporter.show(row())

    assert "[1/1] 1/19 runtime_error: beforeafter: beforeafter\n" == capsys.readouterr().err


def test_what_an_engine_was_told_gets_none_either(capsys: pytest.CaptureFixture[str]) -> None:
    Reporter().event("again", {"kernels": 1, "reason": f"Lost: {TEXT}\nand more"})

    assert "again: kernels 1, reason Lost: beforeafter and more\n" == capsys.readouterr().err


@pytest.mark.parametrize("before", ["", "\t", "\r", "\u200b", "\ufffe", HARMFUL])
def test_a_spreadsheet_gets_no_formula_whatever_stands_before_it(
    capsys: pytest.CaptureFixture[str], before: str
) -> None:
    say(cell(f"{before}=HYPERLINK()"))

    assert capsys.readouterr().out.startswith("'")


@pytest.mark.parametrize(
    "text", ["plain", "`", "a`b", "``a`b", "a`b``", "` ``b", "``", "<b>@all</b>", "a|b", "[x](y)"]
)
def test_a_code_span_ends_where_the_text_does_whatever_backticks_it_holds(text: str) -> None:
    span = code_span(text)
    ticks = span[: len(span) - len(span.lstrip("`"))]
    inside = span[len(ticks) : -len(ticks)]

    assert span == f"{ticks}{inside}{ticks}"
    assert ticks not in re.findall("`+", inside), "a run of as many would end it"
    assert "`" not in (inside[0], inside[-1])
    assert text.replace("|", "¦") == inside.strip()
    assert ["`(empty)`"] * 3 == [code_span(nothing) for nothing in ("", "\x1b[2J", " \n")]


@pytest.mark.parametrize("text", ["plain", "```", "a\n```\nb\n`````\n", "`` ` ````"])
def test_a_block_of_code_ends_where_the_text_does_and_of_a_long_one_the_end_is_shown(text: str) -> None:
    first, *body, last = fence(text).split("\n")

    assert f"{last}text" == first and set("`") == set(last)
    assert len(last) > max(2, *map(len, re.findall("`*", text)))
    assert text.strip("\n") == "\n".join(body)
    assert f"```text\n…{'x' * 98}z\n```" == fence("y" * 900 + "x" * 98 + "z", 100)
    assert f"```text\n{'x' * 100}\n```" == fence("x" * 100, 100)


def test_a_text_is_cut_at_its_limit_and_not_before() -> None:
    assert ["abcd", "abc…"] == [shorten(text, 4) for text in ("abcd", "abcde")]


def test_every_line_of_a_log_has_its_mark() -> None:
    assert "| a\n| ::error::b\n| ## [group]c" == log_text("a\n::error::b\r##[group]c")
    assert "| " == log_text("")


def test_what_is_no_formula_stands_in_a_table_as_it_is() -> None:
    assert ["plain", "1=2", ""] == [cell(text) for text in ("plain", "1=2", "")]
    assert ["'=1", "'+1", "'-1", "'@1"] == [cell(text) for text in ("=1", "+1", "-1", "@1")]


def test_what_unicode_will_never_make_a_character_is_left_out_and_its_neighbours_stay() -> None:
    nothing = "".join(map(chr, (0xFDD0, 0xFDEF, 0xFFFE, 0xFFFF, 0x1FFFE, 0x10FFFF)))

    assert "\ufdcf\ufdf0\ufffd" == visible(f"\ufdcf{nothing}\ufdf0\ufffd")


def test_logs_and_comments_get_none() -> None:
    outcome = ScoredRun(standing=None, entrants=0, board="H100", rows=(row(),))
    comment = render_comment(
        PullReport(state="done", head_sha="0" * 40, entry="x", display_name=TEXT, outcome=outcome)
    )

    assert set() == harm_in(log_text(TEXT))
    assert set() == harm_in(comment)
    assert "beforeafter" in comment


def test_pages_and_their_data_get_none(tmp_path: Path) -> None:
    import sitehouse

    from leaderboard.render import build_site

    root = tmp_path / "root"
    shutil.copytree(sitehouse.repository(), root)
    path = root / "data/results/H200/hostile.json"
    result = json.loads(path.read_text())
    failed = next(each for each in result["rows"] if each["status"] != "correct")
    failed["failure"] = {"name": TEXT, "message": TEXT, "log": TEXT}
    path.write_text(json.dumps(result))

    build_site(sitehouse.read(root), tmp_path / "out")

    shown = [
        each
        for each in (tmp_path / "out").rglob("*")
        if each.suffix in (".html", ".json", ".svg", ".xml") and each.parent.name != "schemas"
    ]
    texts = [each.read_text("utf-8") for each in shown]
    assert any("beforeafter" in text for text in texts)
    assert [] == [each.name for each, text in zip(shown, texts, strict=True) if harm_in(text) - {"\r"}]
    escaped = re.compile(r"\\u00(?:0[0-8b-f]|1|7f|[89])|\\u20(?:2[a-e]|6)|\\ufeff")
    assert [] == [each.name for each, text in zip(shown, texts, strict=True) if escaped.search(text)]


def test_the_feed_and_badges_are_whole_whatever_a_name_holds(tmp_path: Path) -> None:
    import sitehouse

    from leaderboard.render import build_site

    root = tmp_path / "root"
    shutil.copytree(sitehouse.repository(), root)
    path = root / "submissions/hostile.json"
    entry = json.loads(path.read_text())
    entry["metadata"]["display_name"] = f"Fine\ufffe\uffff\ufdd0\U0001fffe{HARMFUL}name"
    path.write_text(json.dumps(entry))

    build_site(sitehouse.read(root), tmp_path / "out")

    documents = [each for each in (tmp_path / "out").rglob("*") if each.suffix in (".xml", ".svg")]
    assert [] == [each.name for each in documents if ElementTree.parse(each).getroot() is None]
    assert "Finename on H200" in (tmp_path / "out/feed.xml").read_text("utf-8")


def test_there_is_one_way_to_a_terminal() -> None:
    others = [
        path.relative_to(BOARD).as_posix()
        for path in BOARD.rglob("*.py")
        if "typer.echo(" in path.read_text("utf-8")
    ]

    assert ["texts/say.py"] == others
