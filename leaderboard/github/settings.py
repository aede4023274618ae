"""The settings of `.github/evaluation.toml`. Reads one file; unknown or missing names are errors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from kernel_evaluator.engines.epoch import unserved
from kernel_evaluator.records.rows import BOARD_PRECISIONS, Sizes, board_name

from leaderboard.files.typed import read_toml, typed
from leaderboard.stages.engines import ENGINES
from leaderboard.stages.money import Caps
from leaderboard.texts.faults import words_for

DEFAULT_PATH = Path(".github/evaluation.toml")
DEVICES = ("cuda", "cpu")
_BRANCH = re.compile(r"(?!refs/)[A-Za-z0-9_][A-Za-z0-9._/-]*")
T = TypeVar("T")


class SettingsError(ValueError):
    """The settings file cannot be used; the message says which name and why."""


@dataclass(frozen=True, kw_only=True)
class HostPatience:
    """How often a call to the API is tried again, the pause between calls, the longest wait for a limit."""

    api_retries: int
    pause_s: float
    limit_wait_s: float


@dataclass(frozen=True, kw_only=True)
class BoardSettings:
    """What an evaluation for a board is: label, engine, device, sizes and census, and how many at once.

    `precision` is the class of the entries that it takes: fp32 where it is left out, or bf16.
    """

    label: str
    engine: str
    gpu: str
    device: str
    sizes: Sizes
    census: bool
    at_once: int
    precision: str = "fp32"

    @property
    def name(self) -> str:
        """The board that results belong to."""
        return board_name(self.gpu, self.sizes, self.precision)

    @property
    def closed_because(self) -> str:
        """Why nothing may be judged for it, such as a GPU without a price; empty where it may."""
        return unserved(self.engine, self.gpu)


@dataclass(frozen=True, kw_only=True)
class RepositorySettings:
    """The branches of both ends and of the queue, the caps on money, and the boards."""

    base_ref: str
    results_ref: str
    queue_ref: str
    host: HostPatience
    money: Caps
    boards: tuple[BoardSettings, ...]

    def board(self, name: str) -> BoardSettings:
        """Give a board by its name; raise SettingsError where there is none."""
        return self._the_one("name", name)

    def board_of_label(self, label: str) -> BoardSettings:
        """Give the board whose evaluations a label starts; raise SettingsError where there is none."""
        return self._the_one("label", label)

    def _the_one(self, fact: str, wanted: str) -> BoardSettings:
        for board in self.boards:
            if getattr(board, fact) == wanted:
                return board
        known = ", ".join(repr(getattr(board, fact)) for board in self.boards)
        raise SettingsError(f"{DEFAULT_PATH}: no board has the {fact} {wanted!r}; there are {known}")


def read_settings(path: Path = DEFAULT_PATH) -> RepositorySettings:
    """Read the settings; raise SettingsError that names the file, the table, and what is wrong."""
    try:
        values = read_toml(path)
        boards = values.pop("boards", {})
        if not isinstance(boards, dict):
            raise ValueError(f"boards must be tables, [boards.<name>], got {boards!r:.80}")
        parts = {
            "host": _table(HostPatience, values.pop("host", {}), "host"),
            "money": _table(Caps, values.pop("money", {}), "money"),
            "boards": tuple(_board(name, board) for name, board in boards.items()),
        }
        settings = typed(RepositorySettings, {**values, **parts})
        _check_branches(settings)
    except (OSError, ValueError) as error:
        raise SettingsError(words_for(error, path)) from error
    labels = [board.label for board in settings.boards]
    if not labels or len(set(labels)) != len(labels):
        raise SettingsError(f"{path}: there must be boards, each with a label of its own, got {labels}")
    return settings


def _table(kind: type[T], values: object, where: str) -> T:
    """Make it of a table, in which no number is below 0."""
    made = typed(kind, values, where)
    for name, value in vars(made).items():
        if isinstance(value, int | float) and value < 0:
            raise ValueError(f"{where}: {name} must be 0 or more, got {value}")
    return made


def _board(name: str, values: object) -> BoardSettings:
    where = f"boards.{name}"
    board = _table(BoardSettings, values, where)
    for fact, known in (("engine", ENGINES), ("device", DEVICES), ("precision", BOARD_PRECISIONS)):
        if getattr(board, fact) not in known:
            raise ValueError(f"{where}: {fact} must be {' or '.join(known)}, got {getattr(board, fact)!r}")
    if board.name != name:
        raise ValueError(f"{where} must be called {board.name}, after its gpu, precision and sizes")
    if board.label not in ("evaluate", f"evaluate: {name}"):
        raise ValueError(f"{where}: the label must be evaluate or evaluate: {name}, got {board.label!r}")
    if board.at_once < 1:
        raise ValueError(f"{where}: at_once must be 1 or more, got {board.at_once}")
    return board


def _check_branches(settings: RepositorySettings) -> None:
    for name in ("base_ref", "results_ref", "queue_ref"):
        ref = getattr(settings, name)
        if not _BRANCH.fullmatch(ref):
            raise ValueError(f"{name} must be a branch's name, without refs/ before it, got {ref!r}")
    if settings.queue_ref in (settings.base_ref, settings.results_ref):
        raise ValueError(f"queue_ref must be a branch of its own, got {settings.queue_ref!r} for another too")
