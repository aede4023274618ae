"""`kbl site`: builds the static site from recorded results, and serves it on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leaderboard.commands.ends import failed
from leaderboard.commands.options import Problems
from leaderboard.texts.say import say

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def register(app: typer.Typer) -> None:
    """Add `kbl site build`, `kbl site serve` and `kbl site picture`."""
    site = typer.Typer(no_args_is_help=True, help="The static site: build it, look at it.")
    site.command("build")(build)
    site.command("serve")(serve)
    site.command("picture")(picture)
    app.add_typer(site, name="site")


def web_address(value: str) -> str:
    """Give an address back that links can be made of, or an empty one; the callback of the option."""
    from leaderboard.render.parts.numbers import safe_url

    if value and not safe_url(value):
        raise typer.BadParameter(f"must begin with https:// or http:// and name a host, got {value[:80]!r}")
    return value


BaseUrl = Annotated[
    str, typer.Option(help="The site's address, for feed and pictures.", callback=web_address)
]


def build(
    data: Annotated[Path, typer.Option(help="Folder with results/ and history/.")] = Path("data"),
    submissions: Annotated[Path, typer.Option(help="Folder of merged submissions.")] = Path("submissions"),
    baselines: Annotated[Path, typer.Option(help="Folder of PyTorch's own timings.")] = Path("baselines"),
    problems: Problems = None,
    out: Annotated[Path, typer.Option(help="Where the site goes: a folder of its own.")] = Path("build/site"),
    base_url: BaseUrl = "",
    repository: Annotated[str, typer.Option(help="The repository's address, for links to it.")] = "",
    jobs: Annotated[int, typer.Option(help="Processes; 0 for one a core.", min=0)] = 0,
) -> None:
    """Build the site; unchanged pages are not written again, stale ones are removed.

    Exit status: 0 built, 2 a file is broken, or a folder is not what it should be.
    """
    from kernel_evaluator.records.places import PROBLEM_SET

    from leaderboard.files.store import StoreError, locked_folder, require_data
    from leaderboard.render import OccupiedError, SiteConfig, build_site, default_jobs, require_free
    from leaderboard.render.reading.sources import Places, read_site

    whole = out.absolute()  # `.` has no name
    memory = whole.parent / f".{whole.name}-read"
    address = base_url if not base_url or base_url.endswith("/") else base_url + "/"
    config = SiteConfig(
        base_url=address,
        repository=repository,
        jobs=jobs or default_jobs(),
        memory=memory,
    )
    places = Places(data=data, submissions=submissions, baselines=baselines, problems=problems or PROBLEM_SET)
    try:
        require_data(data, submissions)
        require_free(out)  # before anything is read, which takes long and is remembered beside it
        with locked_folder(memory):
            report = build_site(read_site(places, config), out)
    except (StoreError, OccupiedError, OSError) as error:
        raise failed(error) from error
    say(
        f"{report.files} files, {report.size_bytes / 1e6:.1f} MB in {out} after {report.seconds:.1f} s: "
        f"{report.written} written, {report.unchanged} unchanged, {report.removed} removed"
    )
    if report.not_covered:
        some = ", ".join([*report.not_covered[:5], *(["…"] if len(report.not_covered) > 5 else [])])
        say(
            f"no font here has all signs of the names of {some}: pictures show their ids; "
            "apt-get install fonts-dejavu-core fonts-noto-core fonts-noto-cjk",
            err=True,
        )


def serve(
    out: Annotated[Path, typer.Option(help="A site that `kbl site build` made.")] = Path("build/site"),
    port: Annotated[int, typer.Option(help="Port on this machine.", min=0, max=65535)] = 8000,
) -> None:
    """Serve a built site on http://127.0.0.1 until interrupted."""
    with _server(out, port) as server:
        say(f"http://127.0.0.1:{server.server_address[1]}/ (Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("ended")


def picture(
    site: Annotated[Path, typer.Option(help="A site that `kbl site build` made.")] = Path("build/site"),
    page: Annotated[str, typer.Option(help="The page to take.")] = "index.html",
    out: Annotated[Path, typer.Option(help="The PNG to write.")] = Path("docs/board.png"),
    width: Annotated[int, typer.Option(help="Pixels across.", min=320, max=4096)] = 1360,
    height: Annotated[int, typer.Option(help="Pixels down.", min=320, max=4096)] = 900,
) -> None:
    """Take a picture of a page of a built site in a headless browser; the README shows the board's."""
    with opened(site) as (address, browser):
        shown = browser.new_page(viewport={"width": width, "height": height})
        answer = shown.goto(address + page, wait_until="networkidle")
        found = answer is not None and answer.ok
        if found:
            out.parent.mkdir(parents=True, exist_ok=True)
            shown.screenshot(path=out)
    if not found:
        raise failed(f"no page {page} in {site}; a board's is boards/NAME.html")
    say(f"wrote {out}")


@contextmanager
def opened(site: Path) -> Iterator[tuple[str, Browser]]:
    """Serve a built site to a headless browser: gives its address and the browser."""
    from threading import Thread

    from leaderboard.doctor import BROWSERS

    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise failed(f"the browser's driver is missing ({error}); run: pip install playwright") from error

    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise failed("no headless browser: apt-get install chromium")
    with _server(site, 0) as server, sync_playwright() as running:
        Thread(target=server.serve_forever, daemon=True).start()
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        try:
            yield address, running.chromium.launch(executable_path=browser, args=flags)
        finally:
            server.shutdown()


def _server(folder: Path, port: int) -> ThreadingHTTPServer:
    if not (folder / "index.html").is_file():
        raise failed(f"no site in {folder}; run: kbl site build --out {folder}")
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), partial(_Handler, directory=folder))
    except OSError as error:
        raise failed(f"port {port} cannot be used ({error}); name another with --port") from error


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing: a page fetches many files."""
