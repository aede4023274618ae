"""The settings of `.github/evaluation.toml`. Reads one file; unknown or missing names are errors."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

from kernel_evaluator.engines.epoch import unserved
from kernel_evaluator.records.rows import BOARD_PRECISIONS, Sizes, board_name

from leaderboard.stages.money import Caps

DEFAULT_PATH = Path(".github/evaluation.toml")


class SettingsError(ValueError):
    """The settings file cannot be used; the message says which name and why."""


@dataclass(frozen=True, kw_only=True)
class Patience:
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
    host: Patience
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
    """Read the settings; raise SettingsError that names the file and what is wrong."""
    try:
        values = tomllib.loads(path.read_text("utf-8"))
        parts = {
            "host": Patience(**_checked(Patience, values.pop("host", {}))),
            "money": Caps(**_checked(Caps, values.pop("money", {}))),
            "boards": tuple(_board(name, board) for name, board in values.pop("boards", {}).items()),
        }
        settings = RepositorySettings(**_checked(RepositorySettings, {**values, **parts}))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: {error}") from error
    labels = [board.label for board in settings.boards]
    if not labels or len(set(labels)) != len(labels):
        raise SettingsError(f"{path}: there must be boards, each with a label of its own, got {labels}")
    return settings


def _board(name: str, values: Mapping[str, Any]) -> BoardSettings:
    board = BoardSettings(**_checked(BoardSettings, values))
    if board.sizes not in ("full", "reduced"):
        raise ValueError(f"sizes must be full or reduced, got {board.sizes!r}")
    if board.precision not in BOARD_PRECISIONS:
        raise ValueError(f"precision must be {' or '.join(BOARD_PRECISIONS)}, got {board.precision!r}")
    if board.name != name:
        raise ValueError(f"boards.{name} must be called {board.name}, after its gpu, precision and sizes")
    if board.label not in ("evaluate", f"evaluate: {name}"):
        raise ValueError(
            f"boards.{name}: the label must be evaluate or evaluate: {name}, got {board.label!r}"
        )
    if board.at_once < 1:
        raise ValueError(f"boards.{name}: at_once must be 1 or more, got {board.at_once}")
    return board


def _checked(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    names = {item.name for item in fields(kind)}
    needed = {item.name for item in fields(kind) if item.default is MISSING}
    if not needed <= set(values) <= names:
        missing, unknown = sorted(needed - set(values)), sorted(set(values) - names)
        raise ValueError(f"missing settings {missing}, unknown settings {unknown}")
    hints = get_type_hints(kind)
    for name, value in values.items():
        wanted = hints[name]
        if isinstance(wanted, type) and not isinstance(value, (int, float) if wanted is float else wanted):
            raise ValueError(f"{name} must be {wanted.__name__}, got {value!r}")
    return dict(values)
