"""The site while it is being built: what it shows, prepared once, and how a page is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jinja2 import BytecodeCache, Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from kernel_evaluator.machine import figures
from markupsafe import Markup, escape

from leaderboard.light.roofline import roofs
from leaderboard.render import places
from leaderboard.render.model import SiteData
from leaderboard.render.output import SiteFolder
from leaderboard.render.parts import numbers
from leaderboard.render.parts.lines import STATUS_WORDS, EntryLine, KernelLine, entry_lines
from leaderboard.resources import SITE
from leaderboard.stages.references import is_compile
from leaderboard.stages.standings import Board, Kind, Reference

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)


KEPT = 100
"""So many of a problem's kernels, the fastest on a board, have their rows and their code with the site."""


class BoardView:
    """One board with its lines sorted the ways that pages need."""

    def __init__(self, board: Board, lines: Mapping[tuple[str, str], Sequence[KernelLine]]) -> None:
        self.board = board
        self.name = board.name
        self.entries: list[EntryLine] = entry_lines(board)
        self.by_entry = {item.entry: lines.get((board.name, item.entry), ()) for item in board.standings}
        self.names = {line.standing.entry: line for line in self.entries}
        self.rows = _with_cut_lines(self.entries)
        self.baselines = frozenset(
            line.standing.entry for line in self.entries if line.standing.kind == "baseline"
        )
        self.roofs = roofs(board.gpu, board.precision) if board.sizes == "full" else {}

    @property
    def by_problem(self) -> Mapping[str, list[KernelLine]]:
        """Kernels of each problem, fastest first, those without a speedup last; one sample an entry.

        Where an entry sent no first sample a further one stands, behind all others: it counts nowhere.
        """
        return self._grouped[0]

    @property
    def further(self) -> Mapping[tuple[str, str], list[KernelLine]]:
        """The further samples of an entry on a problem, in their order."""
        return self._grouped[1]

    @cached_property
    def _grouped(self) -> tuple[dict[str, list[KernelLine]], dict[tuple[str, str], list[KernelLine]]]:
        first: dict[str, list[KernelLine]] = defaultdict(list)
        further: dict[tuple[str, str], list[KernelLine]] = defaultdict(list)
        for entry, lines in self.by_entry.items():
            seen: set[str] = set()
            for line in lines:
                problem = line.problem
                (further[entry, problem] if problem in seen else first[problem]).append(line)
                seen.add(problem)
        for found in first.values():
            found.sort(key=_by_speed)
        return first, further

    @cached_property
    def fastest(self) -> dict[str, KernelLine]:
        """The fastest correct kernel of an entry on each problem: baselines are what there is to beat."""
        return self._fastest("entry")

    @cached_property
    def best_of_pytorch(self) -> dict[str, KernelLine]:
        """The fastest correct baseline on each problem; none where eager PyTorch is the only one."""
        return self._fastest("baseline") if "best" in self.board.references else {}

    def _fastest(self, kind: Kind) -> dict[str, KernelLine]:
        def may_win(line: KernelLine) -> bool:
            is_ours = self.names[line.entry].standing.kind == kind and not line.sample
            return is_ours and line.is_correct and bool(line.speedup)

        first = {problem: next(filter(may_win, lines), None) for problem, lines in self.by_problem.items()}
        return {problem: line for problem, line in first.items() if line is not None}

    @cached_property
    def references(self) -> dict[Reference, dict[str, float]]:
        """How much faster than eager PyTorch each other reference is, on problems that do not rank too."""
        found: dict[Reference, dict[str, float]] = {}
        for reference, ranked in self.board.references.items():
            ours = {entry for entry in self.baselines if reference == "best" or is_compile(entry)}
            found[reference] = dict(ranked)
            for problem in sorted(self.by_problem.keys() - ranked.keys()):
                lines = (line for line in self.by_problem[problem] if line.entry in ours and not line.sample)
                speedups = (line.speedup for line in lines if line.is_correct and line.speedup)
                found[reference][problem] = max([1.0, *speedups])
        return found

    @property
    def sent(self) -> int:
        """How many entries it has: baselines are what there is to beat."""
        return len(self.entries) - len(self.baselines)

    @property
    def size(self) -> str:
        """How many entries it has, and baselines beside them, in words."""
        beside = f" and {numbers.counted(len(self.baselines), 'baseline')}" if self.baselines else ""
        return numbers.counted(self.sent, "entry", "entries") + beside

    @property
    def is_large(self) -> bool:
        """Whether it has more entries than the site can keep all of."""
        return len(self.entries) > KEPT

    @property
    def best(self) -> EntryLine | None:
        """The entry of the first rank; None where none is ranked."""
        return next((line for line in self.entries if line.standing.rank is not None), None)

    @property
    def updated(self) -> str:
        """When the last of its entries' evaluations ended; empty without entries."""
        return max((line.standing.result.finished_at for line in self.entries), default="")

    @property
    def device(self) -> tuple[Mapping[str, float], float]:
        """The board's device: its peaks in TFLOP/s, and its memory in TB/s; empty and 0 where not known."""
        machine = figures.gpus().get(self.board.gpu)
        return (machine.peak_tflop_s, machine.memory_tb_s) if machine else ({}, 0.0)

    @cached_property
    def measured_with(self) -> str:
        """The versions of torch that the board's rows were measured with."""
        results = (line.standing.result for line in self.entries)
        found = {item.torch for result in results for item in result.environments.values()}
        return ", ".join(sorted(version.partition("+")[0] for version in found if version))

    @property
    def title(self) -> str:
        """The board's name for people."""
        name = self.name.removesuffix(f"-{self.board.sizes}").replace("-bf16", " bf16")
        return name if self.board.sizes == "full" else f"{name}, {self.board.sizes} sizes"


class Site:
    """Everything that page makers share; workers inherit it and write through a folder of their own."""

    def __init__(self, data: SiteData, folder: SiteFolder) -> None:
        self.data = data
        self.folder = folder
        self.boards = [BoardView(board, data.lines) for board in data.boards]
        self.remembered: dict[str, Any] = {}
        """What page makers work out once."""
        self.problems = {f"{item.level}_{item.problem_id}": item for item in data.problems}
        if len({places.slug(view.name) for view in self.boards}) < len(self.boards):
            raise ValueError(
                f"boards must differ in their addresses, got {[view.name for view in self.boards]}"
            )
        self.root = urlsplit(data.config.base_url).path  # the page not found is shown at any address
        self.environment = _environment(data.config.memory)
        self.environment.globals.update(
            config=data.config,
            policy=POLICY,
            boards=self.boards,
            statuses=STATUS_WORDS,
            published=data.published,
            api=places.API,
        )

    def page(self, name: str, template: str, **values: Any) -> None:
        """Render one page and write it."""
        self.folder.write(name, self.rendered(name, template, **values))

    def rendered(self, name: str, template: str, **values: Any) -> str:
        """Give the text of one page; `root` leads from it to the site's root."""
        root = self.root if name == "404.html" else places.up(name)
        return self.environment.get_template(template).render(here=name, root=root, **values)


def _with_cut_lines(entries: Sequence[EntryLine]) -> list[EntryLine]:
    """Put baselines between the ranked entries, where their speed stands; what is incomplete stays last."""
    placed = [line for line in entries if line.standing.rank is not None]
    for baseline in (line for line in entries if line.standing.kind == "baseline"):
        speed = baseline.standing.overall.deployed_speedup
        slower = (at for at, line in enumerate(placed) if line.standing.overall.deployed_speedup < speed)
        placed.insert(next(slower, len(placed)), baseline)
    taken = {line.standing.entry for line in placed}
    return [*placed, *(line for line in entries if line.standing.entry not in taken)]


def with_code(text: str) -> Markup:
    """Give a document's text as HTML, with what stands between backticks as code."""
    parts = (
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part)
        for at, part in enumerate(text.split("`"))
    )
    return Markup().join(parts)


def problem_title(name: str) -> str:
    """Make a problem's file name readable: `23_Softmax` becomes `Softmax`."""
    return name.split("_", 1)[-1].replace("_", " ").strip() or name


class _InProcess(BytecodeCache):
    """Templates that this process has compiled: to compile them takes as long as a small site's pages."""

    def __init__(self) -> None:
        self._compiled: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take what is known; the bucket itself refuses what other text was compiled to."""
        if bucket.key in self._compiled:
            bucket.bytecode_from_string(self._compiled[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what was compiled."""
        self._compiled[bucket.key] = bucket.bytecode_to_string()


_HERE = _InProcess()


def _environment(memory: Path | None) -> Environment:
    if memory is not None:
        memory.mkdir(parents=True, exist_ok=True)
    environment = Environment(
        loader=FileSystemLoader(SITE / "templates"),
        bytecode_cache=FileSystemBytecodeCache(str(memory), "%s.compiled") if memory else _HERE,
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
        counted=numbers.counted,
        amount=numbers.amount,
        day=numbers.date,
        plain=numbers.plain,
        dollars=numbers.dollars,
        safe_url=numbers.safe_url,
        code=with_code,
        title_of=problem_title,
    )
    environment.globals.update(
        {
            name: getattr(places, name)
            for name in (
                "board_page",
                "all_page",
                "entry_page",
                "kernel_page",
                "problem_page",
                "matrix_page",
                "records_page",
                "board_api",
                "standings_csv",
                "rows_csv",
                "records_api",
                "table_file",
                "entry_api",
                "problem_api",
                "raw_result",
                "board_picture",
                "problem_picture",
                "embed_page",
                "problems_page",
                "raw_kernel",
                "badge",
                "picture",
                "slug",
            )
        }
    )
    return environment


def _by_speed(line: KernelLine) -> tuple[bool, bool, float, str]:
    return line.sample > 0, not line.is_correct, -(line.speedup or 0.0), line.entry
