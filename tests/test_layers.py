"""Imports point one way, and what is heavy is imported only where it is used."""

from __future__ import annotations

import ast
import json
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import kernel_evaluator
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
FOR_OTHERS = {"leaderboard.adapters.verifiers_env", "leaderboard.adapters.openenv_env"}
"""What is imported where another's framework is installed."""
NEVER_IN_BOARD = {"torch", "modal", "github", "triton"}


def modules_loaded_by(statement: str, *, among: set[str]) -> set[str]:
    program = f"import sys, json; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    return set(json.loads(done.stdout)) & among


def board_modules() -> list[str]:
    found = {module.name for module in pkgutil.walk_packages(leaderboard.__path__, "leaderboard.")}
    return sorted(found - FOR_OTHERS)


def test_the_command_line_starts_without_anything_heavy() -> None:
    assert set() == modules_loaded_by("import leaderboard.cli", among=HEAVY)


def test_importing_the_whole_board_loads_neither_torch_nor_modal_nor_github() -> None:
    statement = f"import importlib; [importlib.import_module(name) for name in {board_modules()!r}]"

    assert set() == modules_loaded_by(statement, among=NEVER_IN_BOARD)


def test_validating_loads_no_torch(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    statement = f"import pathlib, leaderboard.stages.validate as v; list(v.validate([pathlib.Path({str(tmp_path)!r})]))"

    assert set() == modules_loaded_by(statement, among=NEVER_IN_BOARD | {"pandas"})


@pytest.mark.parametrize("package", ["leaderboard", "KernelBench/kernel_evaluator"])
def test_no_package_imports_scripts_or_tests(package: str, repository: Path) -> None:
    for path in (repository / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            tops = {name.partition(".")[0] for name in names}
            assert not tops & {"scripts", "tests"}, path
            assert package == "leaderboard" or "leaderboard" not in tops, path


def packages_of(top: str, repository: Path) -> list[Path]:
    folder = repository / ("KernelBench" if top == "kernel_evaluator" else "") / top
    return [folder, *sorted(path.parent for path in folder.rglob("__init__.py") if path.parent != folder)]


def test_the_evaluator_s_rooms_are_small(repository: Path) -> None:
    top, *rooms = packages_of("kernel_evaluator", repository)

    assert len(list(top.glob("*.py"))) <= 8
    assert {} == {room.name: found for room in rooms if (found := len(list(room.glob("*.py")))) > 12}


@pytest.mark.parametrize("top", ["leaderboard", "kernel_evaluator"])
def test_every_room_says_what_comes_in_and_goes_out(top: str, repository: Path) -> None:
    for package in packages_of(top, repository):
        said = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""
        assert "In: " in said and "Out: " in said, package
        assert "May import: " in said or package.name == top, package


def test_nobody_outside_writes_what_the_stand_holds(repository: Path) -> None:
    writing = re.compile(r"\bstand(?:\.\w+)* (?:[-+*/|]?=)(?!=)|\bstand\.\w+\[[^]]*\] = ")
    for path in (repository / "KernelBench/kernel_evaluator").rglob("*.py"):
        lines = [line.strip() for line in path.read_text("utf-8").splitlines() if writing.search(line)]
        assert [] == [line for line in lines if re.search(r"\bstand\.", line.partition("=")[0])], path


def test_a_class_shares_its_name_with_no_other() -> None:
    """But for the options of the seed's scripts, and two of the evaluator, whose digest they are part of."""
    apart = ("prompts/examples", "seed_scripts")
    found = Counter(
        node.name
        for package in (leaderboard, kernel_evaluator)
        for path in Path(package.__path__[0]).rglob("*.py")
        if not any(part in path.as_posix() for part in apart)
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, times in found.items() if times > 1} == {"Board", "Built"}
