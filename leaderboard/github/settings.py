"""The settings of `.github/evaluation.toml`. Reads one file; unknown or missing names are errors."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

from kernelbench.rows import Sizes, board_name

DEFAULT_PATH = Path(".github/evaluation.toml")


class SettingsError(ValueError):
    """The settings file cannot be used; the message says which name and why."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How often a call to the API is tried again, the pause between calls, and between looks at the steps."""

    api_retries: int
    pause_s: float
    progress_every_s: float


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """What an evaluation is: its label, engine, device, sizes and census, and the branches of both ends."""

    label: str
    engine: str
    gpu: str
    device: str
    sizes: Sizes
    census: bool
    base_ref: str
    results_ref: str
    host: Patience

    @property
    def board(self) -> str:
        """The board that results belong to."""
        return board_name(self.gpu, self.sizes)


def read_settings(path: Path = DEFAULT_PATH) -> EvaluationSettings:
    """Read the settings; raise SettingsError that names the file and what is wrong."""
    try:
        values = tomllib.loads(path.read_text("utf-8"))
        host = Patience(**_checked(Patience, values.pop("host", {})))
        settings = EvaluationSettings(**_checked(EvaluationSettings, {**values, "host": host}))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: {error}") from error
    if settings.sizes not in ("full", "reduced"):
        raise SettingsError(f"{path}: sizes must be full or reduced, got {settings.sizes!r}")
    return settings


def _checked(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    names = {item.name for item in fields(kind)}
    if names != set(values):
        missing, unknown = sorted(names - set(values)), sorted(set(values) - names)
        raise ValueError(f"missing settings {missing}, unknown settings {unknown}")
    hints = get_type_hints(kind)
    for name, value in values.items():
        wanted = hints[name]
        if isinstance(wanted, type) and not isinstance(value, (int, float) if wanted is float else wanted):
            raise ValueError(f"{name} must be {wanted.__name__}, got {value!r}")
    return dict(values)
