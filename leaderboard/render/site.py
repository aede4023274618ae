"""The site while it is being built: what it shows, prepared once, and how a page is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from leaderboard.light.roofline import roofs
from leaderboard.render import places
from leaderboard.render.model import SiteData
from leaderboard.render.output import SiteFolder
from leaderboard.render.parts import numbers
from leaderboard.render.parts.lines import STATUS_WORDS, EntryLine, KernelLine, entry_lines
from leaderboard.resources import SITE
from leaderboard.stages.standings import Board

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)


class BoardView:
    """One board with its lines sorted the ways that pages need."""

    def __init__(self, board: Board, lines: Mapping[tuple[str, str], Sequence[KernelLine]]) -> None:
        self.board = board
        self.name = board.name
        self.entries: list[EntryLine] = entry_lines(board)
        self.by_entry = {item.entry: lines.get((board.name, item.entry), ()) for item in board.standings}
        self.names = {line.standing.entry: line for line in self.entries}
        self.roofs = roofs(board.gpu, board.precision) if board.sizes == "full" else {}

    @cached_property
    def by_problem(self) -> dict[str, list[KernelLine]]:
        """Kernels of each problem, fastest first, those without a speedup last; one sample an entry."""
        found: dict[str, list[KernelLine]] = defaultdict(list)
        for lines in self.by_entry.values():
            for problem, line in _first_samples(lines).items():
                found[problem].append(line)
        for lines in found.values():
            lines.sort(key=lambda line: (not line.is_correct, -(line.speedup or 0.0), line.entry))
        return found

    @property
    def title(self) -> str:
        """The board's name for people."""
        return self.board.gpu if self.board.sizes == "full" else f"{self.board.gpu}, {self.board.sizes} sizes"


class Site:
    """Everything that page makers share; workers inherit it and write through a folder of their own."""

    def __init__(self, data: SiteData, folder: SiteFolder, templates: Path = SITE / "templates") -> None:
        self.data = data
        self.folder = folder
        self.boards = [BoardView(board, data.lines) for board in data.boards]
        self.problems = {f"{item.level}_{item.problem_id}": item for item in data.problems}
        if len({places.slug(view.name) for view in self.boards}) < len(self.boards):
            raise ValueError(
                f"boards must differ in their addresses, got {[view.name for view in self.boards]}"
            )
        self.root = urlsplit(data.config.base_url).path  # the page not found is shown at any address
        self.environment = _environment(templates)
        self.environment.globals.update(
            config=data.config,
            policy=POLICY,
            boards=self.boards,
            statuses=STATUS_WORDS,
            published=data.published,
            api=places.API,
        )

    def page(self, name: str, template: str, **values: Any) -> None:
        """Render one page and write it; `root` leads from it to the site's root."""
        root = self.root if name == "404.html" else places.up(name)
        text = self.environment.get_template(template).render(here=name, root=root, **values)
        self.folder.write(name, text)


def problem_title(name: str) -> str:
    """Make a problem's file name readable: `23_Softmax` becomes `Softmax`."""
    return name.split("_", 1)[-1].replace("_", " ").strip() or name


def _environment(templates: Path) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        speedup=numbers.speedup,
        interval=numbers.interval,
        percent=numbers.percent,
        ms=numbers.milliseconds,
        seconds=numbers.seconds,
        count=numbers.count,
        amount=numbers.amount,
        day=numbers.date,
        plain=numbers.plain,
        safe_url=numbers.safe_url,
        title_of=problem_title,
    )
    environment.globals.update(
        {
            name: getattr(places, name)
            for name in (
                "board_page",
                "all_page",
                "entry_page",
                "problem_page",
                "matrix_page",
                "records_page",
                "board_api",
                "entry_api",
                "problem_api",
                "raw_result",
                "badge",
                "picture",
                "slug",
            )
        }
    )
    return environment


def _first_samples(lines: Sequence[KernelLine]) -> dict[str, KernelLine]:
    first: dict[str, KernelLine] = {}
    for line in lines:
        first.setdefault(line.problem, line)
    return first
