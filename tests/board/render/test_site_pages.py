"""The site as files: what stands in them, what links to what, what a second build does."""

from __future__ import annotations

import csv
import gzip
import json
import random
import re
import shutil
import socket
import string
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest
import sitehouse
from kernel_evaluator.records.version import evaluator_sha256
from kernel_evaluator.scores import published_interval
from typer.testing import CliRunner

from leaderboard.cli import app
from leaderboard.files.ledger import Spending
from leaderboard.files.submission import kernel_sha256
from leaderboard.render import OccupiedError, SiteConfig, SiteData, build_site
from leaderboard.render.output import SiteFolder
from leaderboard.render.pages import pictures
from leaderboard.render.pages.problems import results
from leaderboard.render.parts import numbers, plots
from leaderboard.render.parts.languages import language
from leaderboard.render.places import checked, versus_page, versus_picture
from leaderboard.render.reading.readings import EntryReader
from leaderboard.render.reading.sources import Places, read_site
from leaderboard.render.site import Site
from leaderboard.show.tables import as_json
from leaderboard.stages.boards import load_boards, read_certificates
from leaderboard.stages.record import record_spending
from leaderboard.stages.upkeep import strike

ATOM = "{http://www.w3.org/2005/Atom}"


class Page(HTMLParser):
    """Collects a page's elements, links, ids and text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def links(self) -> list[str]:
        return [
            value
            for _, attributes in self.elements
            for name in ("href", "src")
            if (value := attributes.get(name))
        ]

    def ids(self) -> set[str]:
        return {value for _, attributes in self.elements if (value := attributes.get("id"))}


def pages(folder: Path) -> dict[Path, Page]:
    return {path.resolve(): Page(path) for path in sorted(folder.rglob("*.html"))}


@pytest.fixture(scope="module")
def site() -> Path:
    return sitehouse.site()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository that a test may change."""
    for name in ("data", "submissions", "problems"):
        shutil.copytree(sitehouse.repository() / name, tmp_path / name)
    return tmp_path


def few_problems() -> list[str]:
    return ["--problems", str(sitehouse.repository() / "problems")]


def build_before(repository: Path) -> None:
    """Leave what an earlier build of the unchanged repository left."""
    shutil.copytree(sitehouse.site(), repository / "out")


FULL_DISK = """
import resource, sys
from pathlib import Path
import sitehouse
from leaderboard.render import build_site
data = sitehouse.read(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
build_site(data, Path(sys.argv[1]) / "out")
"""


def enlarge(repository: Path, entry: str) -> None:
    """Give an entry a kernel too large for the full disk, however it is compressed."""
    path = repository / "submissions" / f"{entry}.json"
    body = json.loads(path.read_text())
    key, source = "level_1_problem_1_sample_0", f"# {random.Random(1).randbytes(100_000).hex()}"
    body["kernels"][key] = source
    path.write_text(json.dumps(body))
    recorded = repository / "data/results/H200" / f"{entry}.json"
    result = json.loads(recorded.read_text())
    next(row for row in result["rows"] if row["key"] == key)["kernel_sha256"] = kernel_sha256(source)
    recorded.write_text(json.dumps(result))


def build_on_a_full_disk(repository: Path) -> None:
    command = [sys.executable, "-c", FULL_DISK, str(repository)]
    ended = subprocess.run(
        command, cwd=Path(sitehouse.__file__).parent, capture_output=True, text=True, check=False
    )
    assert "File too large" in ended.stderr


def packed(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def code_file(out: Path, submissions: Path, entry: str) -> Path:
    """The file of the site that holds an entry's kernel for problem 1/1, by its content."""
    kernels = json.loads((submissions / f"{entry}.json").read_text())["kernels"]
    digest = kernel_sha256(kernels["level_1_problem_1_sample_0"])
    shards = json.loads((out / "api/v1/problems/H200/1_1.json").read_text())["shards"]
    return out / f"kernels/1_1/{int(digest[:2], 16) * shards // 256}.json.gz"


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_link_leads_nowhere(site: Path) -> None:
    known = pages(site)
    dead = []
    for path, page in known.items():
        for link in page.links():
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            base = site.resolve() if parts.path.startswith("/") else path.parent
            target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            fragment_known = (
                not parts.fragment or target not in known or parts.fragment in known[target].ids()
            )
            if not target.is_file() or not fragment_known:
                dead.append(f"{path.name}: {link}")
    assert [] == dead


def test_links_to_elsewhere_are_few_and_known(site: Path) -> None:
    allowed = ("https://board.example/", "https://code.example/board", "https://example.org/")
    strange = {
        link
        for page in pages(site).values()
        for link in page.links()
        if ":" in link and not link.startswith(allowed)
    }
    assert set() == strange


def test_every_page_carries_the_strict_policy_and_nothing_inline(site: Path) -> None:
    for path, page in pages(site).items():
        policies = [a.get("content") for tag, a in page.elements if tag == "meta" and a.get("http-equiv")]
        assert policies == [
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'"
        ], path
        for tag, attributes in page.elements:
            assert tag != "style" and not any(
                name == "style" or name.startswith("on") for name in attributes
            ), path
            assert tag != "script" or (attributes.get("src") or "").split("assets/")[0].strip("./") == "", (
                path
            )


def test_hostile_names_are_text_and_nothing_else(site: Path) -> None:
    for path, page in pages(site).items():
        assert not {"iframe", "object", "embed", "base"} & {tag for tag, _ in page.elements}, path
        assert not any((link or "").lower().startswith(("javascript:", "data:")) for link in page.links()), (
            path
        )
    entry = pages(site)[(site / "entries/H200/hostile.html").resolve()]
    assert "<script>alert(1)</script>\"'>" in entry.text
    assert "{{7*7}}" in entry.text
    assert "\u202e" not in entry.text


def test_hostile_code_and_logs_are_text_and_nothing_else(site: Path) -> None:
    held = packed(code_file(site, sitehouse.repository() / "submissions", "hostile"))
    assert held[kernel_sha256(sitehouse.HOSTILE_SOURCE)] == sitehouse.HOSTILE_SOURCE
    problem = pages(site)[(site / "problems/1_1.html").resolve()]
    assert all(a.get("src", "").startswith("../assets/") for tag, a in problem.elements if tag == "script")
    assert "</td><script>alert(7)</script>" in pages(site)[(site / "trust.html").resolve()].text


def test_a_link_that_is_no_web_address_is_not_made(site: Path) -> None:
    hostile = Page(site / "entries/H200/hostile.html")
    assert not any("javascript" in link for link in hostile.links())
    friendly = next(path for path in (site / "entries/H200").glob("*-0000.html"))
    links = [
        a
        for tag, a in Page(friendly).elements
        if tag == "a" and (a.get("href") or "").startswith("https://example.org")
    ]
    assert ["nofollow noopener"] == [a.get("rel") for a in links]


@pytest.mark.parametrize("name", ["../evil", "a/b", "", ".hidden", "a\nb"])
def test_an_entry_whose_id_could_leave_the_folder_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="entry must be"):
        checked(name)


@pytest.mark.parametrize("place", [versus_page, versus_picture])
def test_two_pairs_of_entries_never_share_one_comparison(place: Callable[[str, str, str], str]) -> None:
    assert place("H100", "a", "b--c") != place("H100", "a--b", "c")
    for sign in set(string.printable):
        try:
            first, second = place("H100", "a", f"b{sign}c"), place("H100", f"a{sign}b", "c")
        except ValueError:
            continue
        assert first != second, sign


def test_the_board_reads_without_scripts(site: Path) -> None:
    text = " ".join(Page(site / "boards/H200.html").text.split())
    assert "Deployed speedup" in text
    assert "PyTorch as it is baseline" in text
    assert "95 % intervals" in text


def test_shared_ranks_carry_a_sign_and_a_baseline_has_none(site: Path) -> None:
    table = json.loads((site / "boards/H200.table.json").read_text())
    ranks = {entry["id"]: entry["rank"] for entry in table["entries"]}
    assert ranks["torch-eager"] == "–"
    shared = [rank for rank in ranks.values() if rank != "–"]
    assert all((shared.count(rank) > 1) == rank.endswith("=") for rank in shared)


@pytest.mark.parametrize("board", ["H100", "H200"])
def test_nobody_leads_who_shares_the_first_rank(site: Path, board: str) -> None:
    first = json.loads((site / f"api/v1/boards/{board}.json").read_text())["standings"][0]
    assert first["rank_shared_by"] > 1
    page = (site / f"boards/{board}.html").read_text()
    said = f"{first['display_name']} is among the first on {board}"
    assert f'<meta name="description" content="{said}: ' in page


def test_what_kernels_there_are_counts_baselines_as_the_schema_says(site: Path) -> None:
    schema = json.loads((site / "schemas/site-problems.schema.json").read_text())
    told = json.loads((site / "api/v1/problems/H200/1_1.json").read_text())
    kinds = [kernel["kind"] for kernel in told["kernels"]]
    assert "baseline" in kinds
    assert told["entries"] == len(kinds)
    assert "baselines among them" in schema["properties"]["entries"]["description"]


def test_the_data_say_what_the_records_say(site: Path) -> None:
    data = sitehouse.read(sitehouse.repository())
    board = next(board for board in data.boards if board.name == "H200")
    published = json.loads((site / "api/v1/boards/H200.json").read_text())
    assert [s.entry for s in board.standings] == [s["entry"] for s in published["standings"]]
    for standing, said in zip(board.standings, published["standings"], strict=True):
        assert standing.overall.deployed_speedup == pytest.approx(
            said["overall"]["deployed_speedup"], rel=1e-5
        )
        assert standing.rank == said["rank"]
    of_entries = {
        (held["entry"], row["key"]): row["counted"]
        for held in map(packed, (site / "api/v1/entries/H200").iterdir())
        for row in held["rows"]
    }
    for path in (site / "api/v1/problems/H200").iterdir():
        for row in json.loads(path.read_text())["kernels"]:
            assert row["counted"] == of_entries[row["entry"], row["key"]], (path.name, row["entry"])


def test_the_index_of_the_data_names_files_that_exist(site: Path) -> None:
    index = json.loads((site / "api/v1/index.json").read_text())
    for board in index["boards"]:
        for name in ("standings", "standings_csv", "references", "problems", "records", "rows_csv"):
            assert (site / board[name]).is_file()
        entry = json.loads((site / board["standings"]).read_text())["standings"][0]["entry"]
        assert (site / board["entry"].format(entry=entry)).is_file()
        assert (site / board["result"].format(entry=entry)).is_file()
        assert (site / board["problem"].format(problem="1_1")).is_file()
    assert all((site / name).is_file() for name in index["schemas"])


def test_published_data_fit_their_published_schemas(site: Path) -> None:
    import jsonschema

    for kind in ("boards", "entries", "problems"):
        schema = json.loads((site / f"schemas/site-{kind}.schema.json").read_text())
        apart = (".records.json", ".references.json", ".problems.json")
        files = [p for p in (site / "api/v1" / kind).rglob("*.json*") if not p.name.endswith(apart)]
        assert files
        for path in files:
            held = packed(path) if path.suffix == ".gz" else json.loads(path.read_text())
            jsonschema.Draft202012Validator(schema).validate(held)


def test_a_recorded_result_is_published_as_it_was_recorded(site: Path) -> None:
    recorded = (sitehouse.repository() / "data/results/H200/hostile.json").read_bytes()
    assert recorded == gzip.decompress((site / "api/v1/results/H200/hostile.json.gz").read_bytes())


def test_a_spreadsheet_reads_no_formula_in_the_csv(copy: Path) -> None:
    for name, start in (("submissions", '"display_name": "'), ("data/results/H200", '"labels": ["')):
        path = copy / name / "hostile.json"
        path.write_text(path.read_text().replace(start, f"{start}@SUM "))
    build_site(sitehouse.read(copy), copy / "out")
    with (copy / "out/api/v1/boards/H200.csv").open() as stream:
        rows = {row["entry"]: row for row in csv.DictReader(stream)}
    assert rows["hostile"]["organization"].startswith("'=HYPERLINK")
    assert rows["hostile"]["display_name"].startswith("'@SUM")
    kernels = gzip.decompress((copy / "out/api/v1/boards/H200.rows.csv.gz").read_bytes()).decode()
    assert len(kernels.splitlines()) > 50
    labels = [row["labels"] for row in csv.DictReader(kernels.splitlines()) if "@SUM" in row["labels"]]
    assert labels
    assert all(text.startswith("'@SUM") for text in labels)


def test_an_empty_field_of_a_submission_is_shown_nowhere(site: Path) -> None:
    with (site / "api/v1/boards/H200.csv").open() as stream:
        rows = {row["entry"]: row for row in csv.DictReader(stream)}
    assert rows["torch-eager"]["organization"] == ""
    for name in ("index.html", "entries/H200/torch-eager.html"):
        assert "None" not in Page(site / name).text


def test_the_feed_names_every_evaluation_newest_first(site: Path) -> None:
    feed = ElementTree.parse(site / "feed.xml").getroot()
    stamps = [entry.findtext(f"{ATOM}updated") for entry in feed.iter(f"{ATOM}entry")]
    assert len(stamps) == 14
    assert stamps == sorted(stamps, reverse=True)
    links = [link.get("href") for link in feed.iter(f"{ATOM}link")]
    assert all(str(link).startswith("https://board.example/") for link in links)


def test_every_entry_has_a_badge_and_a_picture(site: Path) -> None:
    badge = ElementTree.parse(site / "badges/H200/torch-eager.svg").getroot()
    assert "KernelBench H200: " in badge.get("aria-label", "")
    from PIL import Image

    assert Image.open(site / "pictures/H200/hostile.png").size == (1200, 630)
    page = Page(site / "entries/H200/hostile.html")
    pictures = [
        a.get("content") for tag, a in page.elements if tag == "meta" and a.get("property") == "og:image"
    ]
    assert ["https://board.example/pictures/H200/hostile.png"] == pictures


def test_a_second_build_writes_nothing(copy: Path) -> None:
    first = build_site(read_once := sitehouse.read(copy), copy / "out")
    second = build_site(read_once, copy / "out")
    assert (first.files, 0, 0) == (second.unchanged, second.written, second.removed)


def test_two_processes_build_what_one_builds(copy: Path) -> None:
    build_site(sitehouse.read(copy, jobs=1), copy / "one")
    build_site(sitehouse.read(copy, jobs=2), copy / "two")
    assert files_of(copy / "one") == files_of(copy / "two")


def test_a_changed_entry_changes_its_pages_and_leaves_others(copy: Path) -> None:
    build_before(copy)
    path = copy / "submissions" / "torch-eager.json"
    path.write_text(path.read_text().replace("PyTorch as it is", "PyTorch, renamed"))
    before = {p: p.stat().st_mtime_ns for p in (copy / "out").rglob("*") if p.is_file()}
    build_site(sitehouse.read(copy), copy / "out")
    changed = {
        p.relative_to(copy / "out").as_posix() for p, at in before.items() if p.stat().st_mtime_ns != at
    }
    assert "entries/H200/torch-eager.html" in changed
    assert "entries/H200/hostile.html" not in changed
    assert not {name for name in changed if name.startswith(("kernels/", "api/v1/results/", "entries/H100"))}


def test_after_a_change_the_site_is_the_one_that_is_built_anew(copy: Path) -> None:
    build_site(sitehouse.read(copy, memory=copy / "read"), copy / "out")
    path = copy / "data/results/H200/torch-eager.json"
    result = json.loads(path.read_text())
    for row in result["rows"]:
        if row.get("speedup"):
            row["speedup"] *= 1.5
            row["speedup_ci95"] = [1.5 * bound for bound in row["speedup_ci95"]]
    path.write_text(json.dumps(result))
    body = json.loads((copy / "submissions/hostile.json").read_text())
    body["metadata"]["display_name"] = "Once hostile"
    (copy / "submissions/hostile.json").write_text(json.dumps(body))
    build_site(sitehouse.read(copy, memory=copy / "read"), copy / "out")
    build_site(sitehouse.read(copy), copy / "anew")
    assert files_of(copy / "out") == files_of(copy / "anew")


@pytest.mark.parametrize("key", ["level_4_problem_1_sample_0", "level_1_problem_1_sample_1"])
def test_after_a_strike_that_changes_no_score_the_site_is_the_one_that_is_built_anew(
    copy: Path, key: str
) -> None:
    build_before(copy)
    strike(copy / "data", copy / "submissions", "torch-eager", key, why="a <hole>", today=date(2026, 11, 28))
    build_site(sitehouse.read(copy), copy / "out")
    said = " ".join(Page(copy / "out/entries/H200/torch-eager.html").text.split())
    assert f"Struck: {key} on 2026-11-28: a <hole> Log" in said
    build_site(sitehouse.read(copy), copy / "anew")
    assert files_of(copy / "out") == files_of(copy / "anew")


def test_a_withdrawn_entry_leaves_nothing_behind(copy: Path) -> None:
    build_before(copy)
    (copy / "submissions" / "hostile.json").unlink()
    report = build_site(sitehouse.read(copy), copy / "out")
    assert report.removed >= 5
    assert [] == list((copy / "out").rglob("*hostile*"))


def test_what_nobody_merged_yet_changes_nothing(copy: Path) -> None:
    build_before(copy)
    recorded = copy / "data/results/H200/torch-eager.json"
    earlier = copy / "data/history/H200/torch-eager/1.json"
    earlier.parent.mkdir(parents=True)
    earlier.write_bytes(recorded.read_bytes())
    newer = json.loads(recorded.read_text())
    newer |= {"revision": 2, "reason": "the submission changed", "submission_sha256": "e" * 64}
    for row in newer["rows"]:
        row["kernel_sha256"] = "f" * 64
    recorded.write_text(json.dumps(newer))
    report = build_site(sitehouse.read(copy), copy / "out")
    assert (0, 0) == (report.written, report.removed)


def test_an_entry_says_what_waits_and_which_evaluators_judged_it(copy: Path) -> None:
    recorded = copy / "data/results/H200/torch-eager.json"
    result = json.loads(recorded.read_text())
    result["rows"] = [row for row in result["rows"] if not row["key"].startswith("level_3_")]
    for row in result["rows"][:2]:
        row["evaluator_sha256"] = "5" * 64
    for row in result["rows"][2:]:
        row["evaluator_sha256"] = evaluator_sha256()
    recorded.write_text(json.dumps(result))
    build_site(sitehouse.read(copy), copy / "out")
    text = " ".join(Page(copy / "out/entries/H200/torch-eager.html").text.split())
    rest = len(result["rows"]) - 2
    assert f"waits for a verdict {sitehouse.PROBLEMS_A_LEVEL}" in text
    assert f"{evaluator_sha256()[:8]} (the present one) {rest}, 55555555 2" in text
    board = " ".join(Page(copy / "out/boards/H200.html").text.split())
    assert "Rows are by evaluator eeeeeeee, except for rows of PyTorch as it is." in board


def test_only_what_is_faster_beyond_doubt_is_marked(site: Path) -> None:
    rows = json.loads(gzip.decompress((site / "api/v1/results/H200/hostile.json.gz").read_bytes()))["rows"]
    lows = [published_interval(row["speedup_ci95"])[0] for row in rows if row["status"] == "correct"]
    sure = sum(low > 1 for low in lows)
    faster = sum(row["status"] == "correct" and row["speedup"] > 1 for row in rows)
    marked = sum(
        "hostile" in line and '<td class="n up"' in line
        for page in (site / "problems").glob("*_*.html")
        for line in page.read_text().partition('<h3 id="H200"')[2].partition("</table>")[0].splitlines()
    )
    assert 0 < sure == marked <= faster


def test_a_tenth_evaluation_stands_after_the_ninth(copy: Path) -> None:
    recorded = copy / "data/results/H200/torch-eager.json"
    result = json.loads(recorded.read_text())
    earlier = copy / "data/history/H200/torch-eager"
    earlier.mkdir(parents=True)
    for revision in range(1, 12):
        result |= {"revision": revision, "reason": f"reason {revision}."}
        path = recorded if revision == 11 else earlier / f"{revision}.json"
        path.write_text(json.dumps(result))
    build_site(sitehouse.read(copy), copy / "out")
    text = Page(copy / "out/entries/H200/torch-eager.html").text
    places = [text.index(f"reason {revision}.") for revision in range(1, 12)]
    assert places in (sorted(places), sorted(places, reverse=True))


def test_an_earlier_revision_is_scored_by_what_counted_then(copy: Path) -> None:
    recorded = copy / "data/results/H200/hostile.json"
    result = json.loads(recorded.read_text())
    earlier = copy / "data/history/H200/hostile/1.json"
    earlier.parent.mkdir(parents=True)
    fast = next(row for row in result["rows"] if row["status"] == "correct" and row["speedup"] > 2)
    fast["rounds"] = {"calls_a_deal": 8}  # found once
    earlier.write_text(json.dumps({**result, "revision": 1}))
    recorded.write_text(json.dumps({**result, "revision": 2}))
    data = sitehouse.read(copy)
    (standing,) = (s for board in data.boards for s in board.standings if s.entry == "hostile")
    (before,) = data.history["H200", "hostile"]
    assert (standing.overall.correct, standing.overall.deployed_speedup) == (
        before.correct,
        pytest.approx(before.deployed_speedup),
    )


def test_a_record_has_the_day_on_which_its_kernel_was_first_correct(copy: Path) -> None:
    recorded = copy / "data/results/H200/hostile.json"
    result = json.loads(recorded.read_text())
    kept, changed, mended = [
        row for row in result["rows"] if row["status"] == "correct" and row["speedup"] > 1
    ][:3]
    for row in (changed, mended):
        row |= {"speedup": 99.0, "speedup_ci95": [98.0, 99.9]}
    recorded.write_text(json.dumps(result | {"revision": 4, "reason": "judged again."}))
    slower = kept | {"speedup": 1.1, "speedup_ci95": [1.05, 1.15]}
    failed = {
        name: mended[name]
        for name in ("key", "kernel_sha256", "problem_sha256", "evaluator_sha256", "environment")
    }
    failed |= {"status": "runtime_error", "failure": {"name": "E", "message": "out of luck"}}
    of_old = [slower, changed | {"kernel_sha256": "f" * 64}, failed]
    folder = copy / "data/history/H200/hostile"
    folder.mkdir(parents=True)
    for revision, day in ((1, "2024-03-02"), (2, "2024-02-29"), (3, "2024-03-01")):
        old = result | {"revision": revision, "rows": of_old, "finished_at": f"{day}T00:00:00Z"}
        (folder / f"{revision}.json").write_text(json.dumps(old))
    build_site(sitehouse.read(copy), copy / "out")
    found = json.loads((copy / "out/api/v1/boards/H200.records.json").read_text())["records"]
    dates = {item["problem"]: (item["date"], item["speedup"]) for item in found if item["entry"] == "hostile"}
    assert dates[problem_of(kept)] == ("2024-02-29", kept["speedup"])
    assert [dates[problem_of(row)][0] for row in (changed, mended)] == [result["finished_at"][:10]] * 2
    assert all(item["speedup"] > 1 for item in found)


def test_neither_a_baseline_nor_a_later_sample_nor_a_kernel_in_quarantine_holds_a_record(copy: Path) -> None:
    quarantined = {"status": "quarantined", "evidence": {"clock": 2}}
    for entry, changes in (("torch-eager", {}), ("hostile", quarantined)):
        path = copy / f"data/results/H200/{entry}.json"
        result = json.loads(path.read_text())
        row = next(row for row in result["rows"] if row["key"] == "level_1_problem_2_sample_0")
        row |= {"speedup": 99.0, "speedup_ci95": [98.0, 99.9], **changes}
        path.write_text(json.dumps(result))
    sitehouse.add_sample(copy, "hostile")
    path = copy / "data/results/H200/hostile.json"
    result = json.loads(path.read_text())
    timed = next(row for row in result["rows"] if "runtime_ms" in row)
    later = next(row for row in result["rows"] if row["key"] == "level_1_problem_1_sample_1")
    later |= {name: timed[name] for name in ("runtime_ms", "reference_ms")}
    later |= {"speedup": 99.0, "speedup_ci95": [98.0, 99.9]}
    path.write_text(json.dumps(result))
    build_site(sitehouse.read(copy), copy / "out")
    found = json.loads((copy / "out/api/v1/boards/H200.records.json").read_text())["records"]
    of_problem = [item["speedup"] for item in found if item["problem"] == "1_2"]
    assert of_problem
    assert 99.0 not in [item["speedup"] for item in found]
    kernels = json.loads((copy / "out/api/v1/problems/H200/1_2.json").read_text())["kernels"]
    fastest_first = sorted(kernels, key=lambda kernel: kernel["status"] != "correct")
    assert ["torch-eager", kernels] == [kernels[0]["entry"], fastest_first]


def test_a_problem_of_which_further_samples_alone_were_sent_is_not_solved(copy: Path) -> None:
    for path in (*(copy / "submissions").glob("*.json"), *(copy / "data/results/H200").glob("*.json")):
        path.write_text(
            path.read_text().replace('level_1_problem_2_sample_0"', 'level_1_problem_2_sample_1"')
        )
    out = copy / "out"
    build_site(sitehouse.read(copy), out)
    page = (out / "boards/H200.html").read_text()
    said = re.search(r">(\d+) of (\d+) problems</a>, and <a [^>]*>(\d+) are unsolved", page)
    assert said
    solved = {
        row["key"]
        for item in json.loads((out / "api/v1/boards/H200.json").read_text())["standings"]
        if item["kind"] == "entry"
        for row in packed(out / f"api/v1/entries/H200/{item['entry']}.json.gz")["rows"]
        if row["counted"] and row["status"] == "correct" and row["key"].endswith("sample_0")
    }
    assert (int(said[1]), int(said[3])) == (len(solved), int(said[2]) - len(solved))
    assert "level_1_problem_2_sample_1" in (out / "api/v1/problems/H200/1_2.json").read_text()
    listed = Page(out / "problems/index.html")  # nothing is ranked on the H100 then
    line = next(found for _, found in listed.elements if found.get("id") == "p1_2")
    assert line["data-status"] == "open"
    crossed = re.search(r'<tr data-problem="1_2".*?</tr>', (out / "matrix/H200.html").read_text(), re.DOTALL)
    assert crossed
    assert {"none"} == set(re.findall(r'<td class="(\w+)"', crossed[0]))
    text = (out / "problems/1_2.html").read_text()
    assert ">sample 1<" in text
    assert "against" not in text[text.index('id="light"') : text.index('id="reference"')], "a best kernel"


def test_a_further_sample_stands_behind_what_counts(copy: Path) -> None:
    path = copy / "data/results/H200/hostile.json"
    kernels = copy / "submissions/hostile.json"
    for file in (path, kernels):
        file.write_text(
            file.read_text().replace('level_1_problem_2_sample_0"', 'level_1_problem_2_sample_1"')
        )
    result = json.loads(path.read_text())
    row = next(row for row in result["rows"] if row["key"] == "level_1_problem_2_sample_1")
    row |= {"speedup": 99.0, "speedup_ci95": [98.0, 99.9]}
    path.write_text(json.dumps(result))
    build_site(sitehouse.read(copy), copy / "out")
    listed = json.loads((copy / "out/api/v1/problems/H200/1_2.json").read_text())["kernels"]
    assert "hostile" == listed[-1]["entry"]
    assert listed[0]["status"] == "correct"


def problem_of(row: dict[str, str]) -> str:
    return "_".join(row["key"].split("_")[1:4:2])


def test_only_what_is_faster_beyond_doubt_is_shaded_in_the_matrix(copy: Path) -> None:
    path = copy / "data/results/H200/hostile.json"
    result = json.loads(path.read_text())
    result["rows"][1] |= {"speedup": 2.5, "speedup_ci95": [1.02, 4.0]}
    path.write_text(json.dumps(result))
    build_site(sitehouse.read(copy), copy / "out")
    text = (copy / "out/matrix/H200.html").read_text("utf-8")
    cells = re.findall(r'<td class="(\w+)"><a href="[^"]*&amp;a=(\w+)#code">([^<]*)</a>', text)
    assert ("even", "hostile", "2.50×") in cells
    assert any(tone == "up2" and float(speedup[:-1]) >= 1.2 for tone, _, speedup in cells)


def test_the_matrix_shows_the_first_sample(site: Path) -> None:
    text = (site / "matrix/H200.html").read_text("utf-8")
    cells = re.findall(r'problems/1_1\.html\?board=H200&amp;a=torch-eager#code" title="([^"]*)"', text)
    assert ["fails at run time"] == cells


def test_the_curves_count_first_samples_of_the_ranked_levels_alone(site: Path, copy: Path) -> None:
    sitehouse.add_sample(copy, "hostile")
    path = copy / "data/results/H200/hostile.json"
    result = json.loads(path.read_text())
    timed = next(row for row in result["rows"] if row["status"] == "correct" and "speedup" in row)
    for row in result["rows"]:
        if row["status"] == "correct" and not re.match("level_[123]_problem_[0-9]+_sample_0", row["key"]):
            row |= {"runtime_ms": timed["runtime_ms"], "reference_ms": timed["reference_ms"]}
            row |= {"speedup": 9.0, "speedup_ci95": [8.9, 9.1]}
    path.write_text(json.dumps(result))
    build_site(sitehouse.read(copy), copy / "out")
    before, after = (
        re.findall(r'<path class="c\d" d="(M[^"]*)"', (folder / "boards/H200.html").read_text("utf-8"))
        for folder in (site, copy / "out")
    )
    assert len(before) > 1
    assert before == after


def test_a_kernels_file_lost_from_the_output_is_written_again(copy: Path) -> None:
    build_before(copy)
    lost = code_file(copy / "out", copy / "submissions", "hostile")
    whole = lost.read_bytes()
    lost.unlink()
    build_site(sitehouse.read(copy), copy / "out")
    assert whole == lost.read_bytes()


def test_code_that_the_output_holds_wrongly_is_read_anew(copy: Path) -> None:
    build_before(copy)
    path = code_file(copy / "out", copy / "submissions", "hostile")
    path.write_bytes(gzip.compress(json.dumps(dict.fromkeys(packed(path), "other code")).encode()))
    (copy / "submissions" / "torch-eager.json").unlink()  # a reason to renew the problems' pages
    build_site(sitehouse.read(copy), copy / "out")
    build_site(sitehouse.read(copy), copy / "whole")
    assert files_of(copy / "whole") == files_of(copy / "out")


def test_what_two_entries_share_lies_there_once(copy: Path) -> None:
    build_before(copy)
    bodies = [json.loads(path.read_text()) for path in (copy / "submissions").glob("*.json")]
    sources = [
        source
        for body in bodies
        for key, source in body["kernels"].items()
        if key.startswith("level_2_problem_1_")
    ]
    held = [
        source for path in (copy / "out/kernels/2_1").glob("*.json.gz") for source in packed(path).values()
    ]
    assert len(held) == len(set(sources)) < len(sources)


@pytest.mark.parametrize("kept", ["docs/thesis.txt", ".git/HEAD"])
def test_a_folder_with_anything_else_in_it_is_left_alone(tmp_path: Path, kept: str) -> None:
    precious = tmp_path / "work" / kept
    precious.parent.mkdir(parents=True)
    precious.write_text("mine")
    (tmp_path / "data").mkdir()
    command = ["site", "build", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "work")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert "--out must be an empty folder" in result.output
    assert [precious] == [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_site_is_built_where_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "none").mkdir()
    monkeypatch.chdir(tmp_path / "site")
    command = ["site", "build", "--data", str(tmp_path / "none"), "--out", ".", *few_problems()]
    assert [0, 0] == [CliRunner().invoke(app, command).exit_code for _ in range(2)]
    assert {"site", ".site-read"} <= {path.name for path in tmp_path.iterdir()}
    monkeypatch.chdir(tmp_path)
    assert "--out must be an empty folder" in CliRunner().invoke(app, command).output


def test_a_folder_made_anew_where_a_site_stood_is_left_alone(copy: Path) -> None:
    build_before(copy)
    shutil.rmtree(copy / "out")
    (copy / "out").mkdir()
    (copy / "out/index.html").write_text("mine")
    with pytest.raises(OccupiedError, match="--out must be an empty folder"):
        build_site(sitehouse.read(copy), copy / "out")
    assert {Path("index.html"): b"mine"} == files_of(copy / "out")


def test_what_others_put_into_the_site_stays(copy: Path) -> None:
    build_before(copy)
    thesis, folder = copy / "out/entries/hostile/thesis.txt", copy / "out/.git/refs"
    thesis.parent.mkdir()
    thesis.write_text("precious")
    folder.mkdir(parents=True)
    (copy / "submissions" / "hostile.json").unlink()
    build_site(sitehouse.read(copy), copy / "out")
    assert thesis.is_file()
    assert folder.is_dir()
    assert [thesis.parent] == list((copy / "out").rglob("*hostile*"))
    assert [thesis] == list(thesis.parent.iterdir())


def test_an_interrupted_build_is_taken_up_again(copy: Path) -> None:
    enlarge(copy, "torch-eager")  # the last entry
    build_on_a_full_disk(copy)
    assert (copy / "out/entries/H200/hostile.html").is_file()
    assert not (copy / "out/assets").exists()
    (copy / "submissions" / "hostile.json").unlink()
    build_site(sitehouse.read(copy), copy / "out")
    build_site(sitehouse.read(copy), copy / "whole")
    assert files_of(copy / "whole") == files_of(copy / "out")


def test_what_an_interrupted_build_wrote_of_other_sources_does_not_stay(copy: Path) -> None:
    build_before(copy)
    submissions = {path: path.read_bytes() for path in (copy / "submissions").glob("*.json")}
    hostile = copy / "submissions/hostile.json"
    hostile.write_bytes(hostile.read_bytes().replace(b"ModelNew", b"ModelOld"))
    enlarge(copy, "torch-eager")
    build_on_a_full_disk(copy)
    for path, content in submissions.items():
        path.write_bytes(content)
    build_site(sitehouse.read(copy), copy / "out")
    build_site(sitehouse.read(copy), copy / "whole")
    assert files_of(copy / "whole") == files_of(copy / "out")


def test_a_kernels_file_that_did_not_fit_on_the_disk_is_written_again(copy: Path) -> None:
    enlarge(copy, "hostile")
    build_site(sitehouse.read(copy), copy / "out")
    path = code_file(copy / "out", copy / "submissions", "hostile")
    whole = path.read_bytes()
    path.unlink()
    build_on_a_full_disk(copy)
    build_site(sitehouse.read(copy), copy / "out")
    assert whole == path.read_bytes()


def test_without_results_there_is_a_friendly_site(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    folders = ["--data", str(tmp_path / "data"), "--out", str(tmp_path / "site"), *few_problems()]
    result = CliRunner().invoke(app, ["site", "build", *folders])
    assert result.exit_code == 0, result.output
    assert "No entries yet" in Page(tmp_path / "site/index.html").text
    assert (tmp_path / "site/problems/1_1.html").is_file()


@pytest.mark.parametrize(
    ("notices", "message"),
    [
        ("[{", "notices.json: not strict JSON"),
        ('[{"date": "2026-01-01"}]', "notices.json: not a list of objects with date, entry, what, why"),
        ("{}", "notices.json: not a list of objects with date, entry, what, why: it must hold a list"),
        ("[]", ""),
    ],
)
def test_broken_notices_are_named(tmp_path: Path, notices: str, message: str) -> None:
    (tmp_path / "notices.json").write_text(notices)
    result = CliRunner().invoke(
        app,
        ["site", "build", "--data", str(tmp_path), "--out", str(tmp_path / "out"), *few_problems()],
        env={"COLUMNS": "200"},
    )
    assert (bool(message), message in result.output) == (result.exit_code == 2, True)


def test_links_into_the_repository_follow_its_default_branch() -> None:
    pages = [sitehouse.site() / name for name in ("submit.html", "entries/H200/torch-eager.html")]
    for page in pages:
        found = re.findall(r"https://code\.example/board/blob/(\w+)/", page.read_text("utf-8"))
        assert {"HEAD"} == set(found), page


def test_what_evaluations_cost_is_told_by_month(tmp_path: Path) -> None:
    for month, usd in (("2026-10", 7.0), ("2026-11", 1.5), ("2026-11", 2.25)):
        item = Spending(day=f"{month}-03", run=int(usd * 4), entry="a", board="H100", usd=usd)
        record_spending(tmp_path / "data", item)
    arguments = ["site", "build", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    assert 0 == CliRunner().invoke(app, [*arguments, *few_problems()]).exit_code

    told = Page(tmp_path / "out/trust.html").text
    assert "2026-11: $3.75 for 2 evaluations" in told
    assert told.index("2026-11") < told.index("2026-10: $7.00 for 1 evaluation")
    assert "1 evaluations" not in told


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["site", "build", "--problems", "nowhere", "--out", "out"], "under nowhere"),
        (["problems", "show", "1/19", "--root", "nowhere"], "under nowhere"),
        (["problems", "show", "relu"], "there is 19_ReLU, 20_LeakyReLU, "),
        (["problems", "show", "19_Rleu"], "there is 19_ReLU"),
        (["problems", "show", "zzzz"], "no problem named 'zzzz' under"),
    ],
)
def test_problems_that_are_not_there_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], message: str
) -> None:
    (tmp_path / "submissions").mkdir()
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, command)
    assert (2, True) == (result.exit_code, message in result.output)
    assert result.output.startswith("error: ")


def test_a_port_that_is_taken_is_said(site: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(app, ["site", "serve", "--out", str(site), "--port", port])
    assert (2, True) == (result.exit_code, f"port {port} cannot be used" in result.output)


def test_an_empty_board_says_so(tmp_path: Path) -> None:
    from leaderboard.stages.standings import Board

    board = Board(name="H100", gpu="H100", sizes="full", precision="fp32", standings=())
    data = SiteData(
        boards=(board,),
        problems=(),
        files=sitehouse.read(sitehouse.repository()).files,
        config=SiteConfig(jobs=1),
    )
    build_site(data, tmp_path)
    assert "waits for its first submission" in Page(tmp_path / "boards/H100.html").text
    assert "No record yet" in Page(tmp_path / "records/H100.html").text


@pytest.mark.parametrize(
    ("path", "content", "said"),
    [
        ("data/results/H200/hostile.json", '{"rows": 1}', "hostile.json: not a result file"),
        ("submissions/hostile.json", '{"metadata": {}}', "hostile.json: not a submission"),
    ],
)
def test_a_broken_file_is_named_and_nothing_is_built(copy: Path, path: str, content: str, said: str) -> None:
    (copy / path).write_text(content)
    result = CliRunner().invoke(
        app,
        [
            "site",
            "build",
            "--data",
            str(copy / "data"),
            "--submissions",
            str(copy / "submissions"),
            "--out",
            str(copy / "out"),
        ],
    )
    assert result.exit_code == 2
    assert said in result.output
    assert not (copy / "out").exists()


def test_a_kernel_that_the_submission_has_no_more_is_not_shown(copy: Path) -> None:
    path = copy / "submissions" / "torch-eager.json"
    body = json.loads(path.read_text())
    body["kernels"]["level_2_problem_2_sample_0"] = "# another kernel than the one judged"
    path.write_text(json.dumps(body))
    build_site(sitehouse.read(copy), copy / "out")
    data = packed(copy / "out/api/v1/entries/H200/torch-eager.json.gz")
    keys = {row["key"] for row in data["rows"]}
    assert "level_2_problem_1_sample_0" in keys
    assert "level_2_problem_2_sample_0" not in keys
    assert "/2_2.html" not in (copy / "out/entries/H200/torch-eager.html").read_text()


def test_the_site_ranks_as_the_command_line_does(tmp_path: Path) -> None:
    data, submissions = tmp_path / "data", tmp_path / "submissions"
    sitehouse.write_repository(tmp_path, entries=5, gpus=("H200", "H100"), most=4, source_length=200)
    shown = read_site(Places(data=data, submissions=submissions), SiteConfig(jobs=2)).boards
    told = load_boards(data, submissions)
    assert json.loads(as_json(told)) == json.loads(as_json(shown))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "–"),
        (1.834, "1.83×"),
        (12.34, "12.3×"),
        (123.4, "123×"),
        (0.0421, "0.042×"),
        (1.0, "1.00×"),
        (0.999, "1.00×"),
        (1.125, "1.13×"),
        (100.5, "101×"),
    ],
)
def test_speedups_read_the_same_everywhere(value: float | None, words: str) -> None:
    assert words == numbers.speedup(value)


def test_the_time_that_an_entry_took_is_that_of_both_evaluations() -> None:
    path = sitehouse.ROOT / "data/results/H100/first-light.json"
    reader = EntryReader(
        data=path.parents[2], submissions=sitehouse.ROOT / "submissions", certificates=read_certificates()
    )
    (reading,) = reader.read([path])
    rows = json.loads(path.read_text())["rows"]
    second = sum(row["second"]["gpu_seconds"] for row in rows if row.get("second"))
    said = reading.scored.standing.result.gpu_seconds
    assert said == pytest.approx(sum(row["gpu_seconds"] for row in rows) + second)
    assert second > 1


def test_without_a_baseline_the_time_of_pytorch_is_the_middle_of_those_beside_the_kernels(
    tmp_path: Path,
) -> None:
    data = sitehouse.read(sitehouse.repository())
    site = Site(data, SiteFolder(tmp_path))
    view = site.boards[0]
    line = next(line for line in view.by_problem["1_1"] if line.reference_ms)
    view.by_problem["1_1"][:] = [line._replace(reference_ms=1.0), line._replace(reference_ms=2.0)]
    assert 1.5 == results(site, view, "1_1").baseline.eager_ms


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (1.2345678, 1.23457),
        (0.99999992, 0.99999992),
        (1.4999998, 1.4999998),
        (2.0000001, 2.0000001),
        (0.5, 0.5),
        (250, 250.0),
        (None, None),
        (float("nan"), None),
    ],
)
def test_no_figure_of_the_data_is_rounded_onto_a_threshold(value: float | None, kept: float | None) -> None:
    assert kept == numbers.rounded(value)


@pytest.mark.parametrize(
    ("value", "words"), [(0.0, "$0"), (0.00004, "$0.00004"), (12.5, "$12.5"), (25_000.0, "$25000")]
)
def test_money_and_rates_are_written_without_exponents(value: float, words: str) -> None:
    assert words == numbers.dollars(value)
    assert "2160" == numbers.significant(2163.2, 3)


@pytest.mark.parametrize(("value", "words"), [(2.658, "2.66\u202fms"), (0.0831, "83.1\u202fµs"), (None, "–")])
def test_times_carry_their_unit(value: float | None, words: str) -> None:
    assert words == numbers.milliseconds(value)


@pytest.mark.parametrize("days", [0.1, 1, 1.7, 2, 3, 6, 10, 40, 57, 150, 240, 241, 2000])
def test_the_dates_under_a_line_over_time_have_room_beside_each_other(days: float) -> None:
    first = datetime(2026, 11, 25, 22, 30, tzinfo=UTC)
    moments = [first + timedelta(days=days * at / 10) for at in range(11)]
    plot = plots.time_plot({"best": [(at.isoformat(), 1.0, "") for at in moments]})
    assert plot
    for tick, following in pairwise(plot.across):
        assert following.at - tick.at > 7 * len(tick.label), (tick, following)
    assert all(tick.at < plots.SIZE[0] - plots.MARGIN[2] for tick in plot.across)


def test_untrusted_text_becomes_one_short_line() -> None:
    assert "a b c" == numbers.plain("a\n\tb\u202e \x00c")
    assert 20 == len(numbers.plain("x" * 500, 20))


def test_serving_answers_with_the_built_site() -> None:
    command = [
        sys.executable,
        "-u",
        "-m",
        "leaderboard",
        "site",
        "serve",
        "--out",
        str(sitehouse.site()),
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().split()[0]
            with urllib.request.urlopen(address, timeout=30) as answer:
                assert b"KernelBench Leaderboard" in answer.read()
        finally:
            process.terminate()


def test_what_an_entry_took_is_told_where_it_says_so(site: Path) -> None:
    told = " ".join(Page(site / "entries/H200/hostile.html").text.split())
    data = packed(site / "api/v1/entries/H200/hostile.json.gz")
    assert (12.5, 1_234_567) == (data["cost_usd"], data["tokens"])
    assert ", for $12.5, 1 234 567 tokens. " in told
    friendly = next((site / "entries/H200").glob("*-0000.html"))
    assert " tokens. " not in Page(friendly).text


def test_every_line_over_time_has_a_look_of_its_own(site: Path) -> None:
    chart = re.search(r'<svg class="chart".*?</svg>', (site / "records/H200.html").read_text(), re.DOTALL)
    assert chart
    looks = re.findall(r'<path class="(c\d+)"', chart[0])
    style = (site / "assets/style.css").read_text()
    assert len(looks) > 5
    assert len(set(looks)) == len(looks)
    assert all(f"path.{look} " in style for look in looks)


def test_no_two_records_for_bibtex_have_one_key(site: Path) -> None:
    keys = [
        re.findall(r"@misc\{([^,]+),", path.read_text())
        for folder in ("boards", "entries")
        for path in (site / folder).rglob("*.html")
    ]
    found = [key for some in keys for key in some]
    assert len(found) > 10
    assert len(set(found)) == len(found)


def test_a_histogram_shows_as_many_kernels_as_it_says(site: Path) -> None:
    for path in (site / "entries/H200").glob("*.html"):
        page = path.read_text()
        said = re.search(r"Histogram of the speedups of (\d+) correct kernels", page)
        assert said
        drawn = re.findall(r"<title>[^<]*×[^<]*: (\d+)</title></rect>", page)
        assert sum(map(int, drawn)) == int(said[1]), path.name


def test_a_boards_picture_has_the_day_on_which_the_board_last_changed(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy / "data/results/H200/torch-eager.json"
    result = json.loads(path.read_text())
    path.write_text(json.dumps({**result, "finished_at": "2026-12-24T08:00:00Z"}))
    monkeypatch.setattr(pictures, "_draw", lambda sheet: sheet.foot.encode())
    build_site(sitehouse.read(copy), copy / "out")
    assert "last measured 2026-12-24" in (copy / "out/boards/H200.html").read_text()
    assert (copy / "out/pictures/H200.png").read_text().endswith("2026-12-24")


def test_a_page_says_how_many_kernels_of_a_long_board_its_data_hold(tmp_path: Path) -> None:
    sitehouse.write_repository(tmp_path, entries=115, levels=(1,), most=1, source_length=200)
    shutil.copytree(sitehouse.repository() / "problems/level1", tmp_path / "problems/level1")
    build_site(sitehouse.read(tmp_path), tmp_path / "out")
    data = json.loads((tmp_path / "out/api/v1/problems/H200/1_1.json").read_text())
    assert data["entries"] > len(data["kernels"]) == 100
    page = (tmp_path / "out/problems/1_1.html").read_text()
    assert "the first 100 as JSON" in page
    assert "all as JSON" not in page


def test_the_language_of_a_kernel_of_empty_lines_is_found_at_once() -> None:
    # A way that begins anew at each line would outlast the test's own limit many times over.
    assert language("# helion, cutlass, tilelang" + "\n" * 1_000_000 + "  import triton") == "Triton"
