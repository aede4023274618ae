"""Imports point one way, and what is heavy is imported only where it is used."""

from __future__ import annotations

import ast
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import leaderboard

HEAVY = {
    "torch",
    "modal",
    "github",
    "pandas",
    "numpy",
    "jsonschema",
    "jinja2",
    "pygments",
    "playwright",
    "triton",
}
NEVER_IN_BOARD = {"torch", "modal", "github", "triton"}


def modules_loaded_by(statement: str, *, among: set[str]) -> set[str]:
    program = f"import sys, json; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    return set(json.loads(done.stdout)) & among


def board_modules() -> list[str]:
    return sorted(module.name for module in pkgutil.walk_packages(leaderboard.__path__, "leaderboard."))


def test_the_command_line_starts_without_anything_heavy() -> None:
    assert set() == modules_loaded_by("import leaderboard.cli", among=HEAVY)


def test_importing_the_whole_board_loads_neither_torch_nor_modal_nor_github() -> None:
    statement = f"import importlib; [importlib.import_module(name) for name in {board_modules()!r}]"

    assert set() == modules_loaded_by(statement, among=NEVER_IN_BOARD)


def test_validating_loads_no_torch(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    statement = (
        f"import pathlib, leaderboard.validate as v; list(v.validate([pathlib.Path({str(tmp_path)!r})]))"
    )

    assert set() == modules_loaded_by(statement, among=NEVER_IN_BOARD | {"pandas"})


@pytest.mark.parametrize("package", ["leaderboard", "KernelBench/kernelbench"])
def test_no_package_imports_scripts_or_tests(package: str, repository: Path) -> None:
    for path in (repository / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            tops = {name.partition(".")[0] for name in names}
            assert not tops & {"scripts", "tests"}, path
            assert package == "leaderboard" or "leaderboard" not in tops, path
