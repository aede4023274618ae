"""Puts into a wheel what pyproject.toml lists as `shipped`. An editable install reads the checkout's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Shipped(BuildHookInterface):  # type: ignore[type-arg]  # what configures a builder is of no interest here
    """Adds the files that lie beside the packages in a checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name each file and its place in the wheel; raise FileNotFoundError where there is none."""
        if version == "editable":
            return
        for pattern, place in self.config["shipped"].items():
            paths = sorted(Path(self.root).glob(pattern))
            if not paths:
                raise FileNotFoundError(f"{pattern} must be there to build a wheel")
            build_data["force_include"].update({str(path): f"{place}/{path.name}" for path in paths})
