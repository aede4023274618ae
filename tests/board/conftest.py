"""A server that forks for each command: processes of their own, without the second that loading takes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.runner import kbl_client, serve_kbl


@pytest.fixture(scope="session")
def kbl_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Its socket."""
    with serve_kbl(tmp_path_factory.mktemp("kbl")) as path:
        yield path


@pytest.fixture(scope="session")
def kbl_forked(kbl_server: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command in a process of its own; `options` are those of `subprocess.run`."""

    def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [*kbl_client(kbl_server), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)

    return run
