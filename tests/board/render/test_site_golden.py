"""A small repository and what its site says, word for word. Look at a difference, then renew it: make bless."""

from __future__ import annotations

import difflib
import gzip
import os
from pathlib import Path

import pytest

from leaderboard.render import SiteConfig, build_site
from leaderboard.render.reading.sources import Places, read_site

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "site"
EXPECTED = (
    "boards/H200.html",
    "boards/H200.table.json",
    "entries/H200/first.html",
    "problems/1_19.html",
    "records/H200.html",
    "feed.xml",
    "api/v1/index.json",
    "api/v1/boards/H200.json",
    "api/v1/boards/H200.csv",
    "api/v1/entries/H200/first.json.gz",
    "api/v1/problems/H200/1_19.json",
    "badges/H200/first.svg",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    places = Places(
        data=GOLDEN / "data",
        submissions=GOLDEN / "submissions",
        baselines=GOLDEN / "baselines",
        problems=GOLDEN / "problems",
        certificates=GOLDEN / "certificates.json",
    )
    out = tmp_path_factory.mktemp("golden")
    build_site(read_site(places, SiteConfig(base_url="https://board.example/", jobs=1)), out)
    return out


@pytest.mark.parametrize("name", EXPECTED)
def test_the_site_says_what_it_said(built: Path, name: str) -> None:
    made = (built / name).read_bytes()
    made = (gzip.decompress(made) if name.endswith(".gz") else made).decode()
    path = GOLDEN / "expected" / name.removesuffix(".gz")
    if os.environ.get("BLESS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made, "utf-8")
    known = path.read_text("utf-8") if path.is_file() else ""
    lines = difflib.unified_diff(known.splitlines(), made.splitlines(), "expected", "made", lineterm="", n=1)
    difference = "\n".join(line[:300] for line in lines)
    assert not difference, f"{name} differs; if it should: make bless\n{difference[:4000]}"
