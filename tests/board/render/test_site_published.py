"""Figures that others published: on the board and the problem pages with their source, apart from our own."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from leaderboard.files.store import StoreError
from leaderboard.render import SiteConfig, build_site
from leaderboard.render.published import read_published
from leaderboard.render.reading.sources import Places, read_site

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests/golden/site"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small repository with our published times, and some of them renamed to stand for its own board."""
    folder, out = tmp_path_factory.mktemp("baselines"), tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "baselines", folder, dirs_exist_ok=True)
    (folder / "H200.json").unlink()
    times = folder / "published" / "times"
    published = json.loads((times / "H100.json").read_text("utf-8"))
    (times / "H200.json").write_text(json.dumps({**published, "gpu": "H200", "source": "Somebody else"}))
    places = Places(
        data=GOLDEN / "data",
        submissions=GOLDEN / "submissions",
        baselines=folder,
        problems=GOLDEN / "problems",
        certificates=GOLDEN / "certificates.json",
    )
    build_site(read_site(places, SiteConfig(jobs=1)), out)
    return out


def section(page: Path) -> str:
    text = page.read_text("utf-8")
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text[text.index('id="published"') :]))


def test_a_board_shows_published_lines_with_their_source_and_says_that_they_were_not_measured_here(
    site: Path,
) -> None:
    shown = section(site / "boards/H200.html")

    assert "Not measured here" in shown
    assert "Gemini 3 Pro H100 0.71× 19.6 % 71.2 %" in shown.replace("\u2009", " ").replace("\u202f", " ")
    assert "AffectionateCurry/KernelBench-Leaderboard" in shown
    assert "torch.compile, default options H100 1.26×" in shown.replace("\u2009", " ").replace("\u202f", " ")


def test_published_lines_are_in_no_table_or_data_of_our_own(site: Path) -> None:
    page = (site / "boards/H200.html").read_text("utf-8")

    assert "Gemini" not in page[: page.index('id="published"')]
    assert "Gemini" not in (site / "api/v1/boards/H200.json").read_text("utf-8")


def test_a_problem_shows_published_times_apart_from_those_of_its_board(site: Path) -> None:
    page = site / "problems/1_19.html"
    before = page.read_text("utf-8").partition('id="published"')[0]
    shown = section(page)

    assert "Somebody else" not in before
    assert "Published elsewhere, not measured here" in page.read_text("utf-8")
    assert "H200: Somebody else" in shown
    assert "H100: Published by ScalingIntelligence/KernelBench at commit 423217d" in shown


def test_a_gain_of_the_compiler_is_that_of_the_published_times() -> None:
    published = read_published(ROOT / "baselines" / "published")
    compiled = next(s for s in published.sources if s.gpu == "H100" and s.lines[0].name.startswith("torch"))
    problems = next(file for file in published.times if file.gpu == "H100").problems.values()

    product = 1.0
    for times in problems:
        product *= (times.eager.mean / times.compiled.mean) ** (1 / 250)
    assert product == pytest.approx(compiled.lines[0].geomean)
    assert compiled.lines[0].fast_1 == sum(t.eager.mean >= t.compiled.mean for t in problems) / 250


def test_a_broken_file_of_published_figures_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"source": "s", "lines": [{"nam": "n"}]}')

    with pytest.raises(StoreError, match=r"x\.json: not published figures"):
        read_published(tmp_path)
