"""A small repository with everything a site can show, the site built of it, and a server for it."""

from __future__ import annotations

import atexit
import gzip
import json
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from kernel_evaluator.records.places import PROBLEM_SET

from leaderboard.render import SiteConfig, SiteData, build_site
from leaderboard.render.reading import sources
from leaderboard.render.reading.sources import Places, read_site

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
from synthetic import write_repository  # noqa: E402

# Every site shows the same record of the red team, and to read it takes as long as the rest of a repository.
_read_cheats = cache(sources.read_cheats)
sources.read_cheats = lambda records, corpus: _read_cheats(records.resolve(), corpus.resolve())

PROBLEMS_A_LEVEL = 3
DECIDING = ("certificates.json", "places.json", "sharpness.json", "sharpness-bf16.json")
"""What says which problems are ranked."""
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
    "--disable-site-isolation-trials",  # else each page that is opened first starts a process of its own
]

HOSTILE = {
    "display_name": "<script>alert(1)</script>\u202e\"'><img src=x onerror=alert(2)>{{7*7}}",
    "organization": '=HYPERLINK("http://evil.example")</td></tr>',
    "notes": "</p></details><iframe src=javascript:alert(3)></iframe> ]]> --> <!-- " + "long " * 100,
    "url": "javascript:alert(4)",
    "backend": '"><svg onload=alert(5)>',
    "generation": {"model": "<b>&lt;m</b>", "scaffold": "x" * 200, "cost_usd": 12.5, "tokens": 1_234_567},
}
PLAIN = {"display_name": "PyTorch as it is", "organization": None, "baseline": True}
HOSTILE_SOURCE = (
    "</pre></script><script>alert(6)</script><!--\n'''\n\"\"\"\x0b\nclass ModelNew: pass\n" + "x" * 500
)


@cache
def repository() -> Path:
    """Write the repository once a test run: eight entries on two GPUs, a hostile one, a baseline."""
    root = Path(tempfile.mkdtemp(prefix="site-tests-"))
    atexit.register(shutil.rmtree, root)
    write_repository(
        root, entries=6, gpus=("H200", "H100"), levels=(1, 2, 3, 4), most=PROBLEMS_A_LEVEL, source_length=900
    )
    first = sorted((root / "submissions").glob("*.json"))[0].stem
    copy_entry(root, first, "hostile", metadata=HOSTILE, source=HOSTILE_SOURCE)
    copy_entry(root, first, "torch-eager", metadata=PLAIN)
    add_sample(root, "torch-eager")
    leave_waiting(root, "torch-eager")
    carry_rounds(root, "torch-eager")
    add_audit(root, "torch-eager")
    for level in (1, 2, 3, 4):
        for path in (PROBLEM_SET / f"level{level}").glob("*.py"):
            if int(path.name.split("_")[0]) <= PROBLEMS_A_LEVEL:
                target = root / "problems" / f"level{level}" / path.name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
    return root


def copy_entry(root: Path, entry: str, name: str, *, metadata: dict[str, Any], source: str = "") -> None:
    """Copy an entry's submission and H200 result under another name, with other metadata and a failing kernel."""
    from leaderboard.files.submission import kernel_sha256

    body = json.loads((root / "submissions" / f"{entry}.json").read_text())
    body["metadata"] = metadata
    result = json.loads((root / "data/results/H200" / f"{entry}.json").read_text())
    result["entry"] = name
    if source:
        key = result["rows"][0]["key"]
        body["kernels"][key] = source
        kept = {k: result["rows"][0][k] for k in ("key", "problem_sha256", "evaluator_sha256", "environment")}
        failure = {
            "name": "<img src=x>",
            "message": "</td><script>alert(7)</script>",
            "log": "\x1b[31m</pre><script>alert(8)</script>",
        }
        result["rows"][0] = {**kept, "kernel_sha256": kernel_sha256(source), "status": "rejected", "failure": failure,
                             "evidence": {"violation": "<script>alert(9)</script>"},
                             "labels": ["<b onclick=alert(10)>"]}  # fmt: skip
    (root / "submissions" / f"{name}.json").write_text(json.dumps(body))
    (root / "data/results/H200" / f"{name}.json").write_text(json.dumps(result))


def leave_waiting(root: Path, entry: str) -> None:
    """Take the row of one kernel of level 3 away, as if it were not judged yet."""
    path = root / "data/results/H200" / f"{entry}.json"
    result = json.loads(path.read_text())
    result["rows"].remove(next(row for row in result["rows"] if row["key"].startswith("level_3_")))
    path.write_text(json.dumps(result))


CHECKS = {"panel_passed": 9, "panel_asked": 9, "looks_are_relative": True, "sharp_share": 0.75}


def carry_rounds(root: Path, entry: str) -> None:
    """Give an entry's first correct row of level 2 the rounds of a real one, and what a row says of its inputs."""
    real = json.loads((ROOT / "tests/golden/rows-H200/founders-triton.json").read_text())
    path = root / "data/results/H200" / f"{entry}.json"
    result = json.loads(path.read_text())
    rows = (row for row in result["rows"] if row["key"].startswith("level_2_") and row["status"] == "correct")
    next(rows).update(rounds=real["rows"][0]["rounds"], checks=CHECKS)
    path.write_text(json.dumps(result))


def add_audit(root: Path, entry: str) -> None:
    """Record an audit of two kernels of an entry, as `kbl audit --out` writes it: one holds, one does not."""
    row = {"finished_at": "2026-11-20T10:00:00+00:00", "evaluator_sha256": "a" * 64}
    findings = [
        {"key": f"level_1_problem_{at}_sample_0", "differs": differs,
         "before": {**row, "speedup": 2.0}, "after": {**row, "speedup": again}}
        for at, differs, again in ((1, "", 2.02), (2, "speedup was 2.000, is <b>1.000</b>", 1.0))
    ]  # fmt: skip
    path = root / "data/audits/H200" / entry / "2026-11-20.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(findings))


def add_sample(root: Path, entry: str) -> None:
    """Give an entry a second sample of the first problem."""
    from leaderboard.files.submission import kernel_sha256

    source = "# the second sample\nclass ModelNew: pass\n"
    paths = (root / "submissions" / f"{entry}.json", root / "data/results/H200" / f"{entry}.json")
    body, result = (json.loads(path.read_text()) for path in paths)
    first = next(row for row in result["rows"] if row["key"] == "level_1_problem_1_sample_0")
    kept = {k: first[k] for k in ("problem_sha256", "evaluator_sha256", "environment")}
    key = "level_1_problem_1_sample_1"
    body["kernels"][key] = source
    row = {**kept, "key": key, "kernel_sha256": kernel_sha256(source), "status": "correct"}
    result["rows"].insert(result["rows"].index(first) + 1, row)
    for path, value in zip(paths, (body, result), strict=True):
        path.write_text(json.dumps(value))


def read(root: Path, **config: Any) -> SiteData:
    """Read a repository laid out as ours, with all problems ranked unless it says which."""
    certificates, *beside = (root / name for name in DECIDING)
    for table in (certificates, *beside):
        if not table.exists():
            table.write_text('{"problems": {}}')
    places = Places(
        data=root / "data",
        submissions=root / "submissions",
        baselines=root / "baselines",
        problems=root / "problems",
        certificates=certificates,
    )
    settings = {
        "base_url": "https://board.example/",
        "repository": "https://code.example/board",
        "jobs": 1,
        **config,
    }
    return read_site(places, SiteConfig(**settings))


@cache
def site() -> Path:
    """Build the repository's site once a test run."""
    out = repository() / "build" / "site"
    build_site(read(repository()), out)
    return out


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine, texts compressed as GitHub Pages does; gives the address of its root."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


PAGE_KINDS = (
    "index.html",
    "boards/H200.html",
    "entries/H200/hostile.html",
    "problems/index.html",
    "problems/1_1.html",
    "matrix/H200.html",
    "compare.html",
    "records/H200.html",
    "method.html",
    "submit.html",
    "trust.html",
    "about.html",
    "embed/H200.html",
    "404.html",
)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def send_head(self) -> BytesIO | BinaryIO | None:
        path = Path(self.translate_path(self.path))
        takes = "gzip" in self.headers.get("Accept-Encoding", "")
        if not takes or path.suffix not in (".html", ".css", ".js", ".json", ".svg") or not path.is_file():
            return super().send_head()
        body = gzip.compress(path.read_bytes(), 6, mtime=0)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return BytesIO(body)


def until(page: Any, expression: str) -> None:
    """Wait for an expression to hold; playwright's own waiting evaluates strings, which the pages' policy forbids."""
    for _ in range(600):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never came true: {expression}")


def settle(page: Any) -> None:
    """Wait until all that the page's scripts had to do up to now is drawn, and its observers have heard of it."""
    page.evaluate("""() => new Promise((done) =>
        requestAnimationFrame(() => requestAnimationFrame(() => requestIdleCallback(done))))""")


def visit(page: Any, address: str) -> None:
    """Open a page and wait until its scripts have what they fetch: two looks in a row find nothing asked for."""
    asked: set[Any] = set()

    def begun(request: Any) -> None:
        asked.add(request)

    def ended(request: Any) -> None:
        asked.discard(request)

    heard = {"request": begun, "requestfinished": ended, "requestfailed": ended}
    for event, note in heard.items():
        page.on(event, note)
    page.goto(address)
    quiet = 0
    while quiet < 2:
        page.wait_for_timeout(20)
        settle(page)
        quiet = 0 if asked else quiet + 1
    for event, note in heard.items():
        page.remove_listener(event, note)


def follow(link: Any) -> None:
    """Click on a link and wait until the page it leads to has come whole; a click alone waits for the first bytes."""
    with link.page.expect_navigation():
        link.click()


def held(page: Any, address: str) -> Callable[[], None]:
    """Hold back the answers to what the page asks for there; gives what lets them go, once one was asked for.

    It waits until the page has made of them what it makes: `networkidle` is over for good once it was reached.
    """
    asked: list[Any] = []
    is_held = True

    def hold(route: Any) -> None:
        asked.append(route)
        if not is_held:
            route.continue_()

    def let_go() -> None:
        nonlocal is_held
        while not asked:
            page.wait_for_timeout(20)
        is_held = False
        held_back = list(asked)
        for route in held_back:
            route.continue_()
        for route in held_back:
            route.request.response().finished()
        settle(page)

    page.route(address, hold)
    return let_go
