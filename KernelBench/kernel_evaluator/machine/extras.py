"""The extras of pyproject.toml: what each brings, whether that is here, and how to get it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "evaluate": ("torch", "ninja", "setuptools"),
    "export": ("pyarrow",),
    "generate": ("httpx",),
    "github": ("github",),
    "inspect": ("inspect_ai",),
    "level4": ("transformers",),
    "litellm": ("httpx", "litellm", "openai"),
    "modal": ("modal",),
    "plots": ("matplotlib",),
    "ray": ("ray",),
    "serve": ("fastapi", "httpx", "prometheus_client", "uvicorn"),
}
"""The modules without which an extra's work cannot begin."""


class MissingExtraError(Exception):
    """Packages are not installed. The message names them, what needs them, and how to get them."""


def missing(extra: str) -> list[str]:
    """Name the modules of an extra that are not here."""
    return [name for name in EXTRAS[extra] if not is_installed(name)]


def is_installed(module: str) -> bool:
    """Whether a module can be found; one inside a package that is not here cannot."""
    return find_spec(module.partition(".")[0]) is not None and find_spec(module) is not None


def install(extra: str) -> str:
    """The command that brings an extra, in a checkout and outside of one: pip knows what it has installed."""
    return f"pip install 'kernelbench-leaderboard[{extra}]'"


def require(extra: str, purpose: str) -> None:
    """Raise MissingExtraError unless all that the extra brings is here; `purpose` says what needs it."""
    lacking = missing(extra)
    if lacking:
        raise MissingExtraError(f"{purpose} needs {', '.join(lacking)}; run: {install(extra)}")
