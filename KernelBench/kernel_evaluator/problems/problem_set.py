"""The problem set: finding, naming and hashing problem files, and cutting them to reduced sizes.

Reads sources only. Executing a problem is the business of the processes that judge.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from kernel_evaluator.records.keys import PROBLEM_COUNTS
from kernel_evaluator.records.places import PROBLEM_SET

SET_VERSION = "v0.2"

_FILE = re.compile(r"([1-9][0-9]*)_.+\.py")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One problem: its place in the benchmark and the source that defines Model and its inputs."""

    level: int
    problem_id: int
    name: str
    source: str = field(repr=False)
    path: Path | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def sha256(self) -> str:
        """Digest of the source as it runs: reduced sizes give another digest than full ones."""
        return hashlib.sha256(self.sized_source.encode()).hexdigest()

    @cached_property
    def sized_source(self) -> str:
        """The source with `overrides` set; the plain source where there are none."""
        return apply_sizes(self.source, self.overrides) if self.overrides else self.source

    def reduced(self, sizes: Mapping[str, Mapping[str, Any]]) -> Problem:
        """The problem at the size a CPU can run, from the table of `read_sizes`.

        The table is made for our set. Another set's problem is left as it is, unless what would be set has
        the same values there.
        """
        overrides = sizes.get(f"{self.level}_{self.problem_id}", {})
        if not overrides or not _is_alike(self, overrides):
            return self
        return replace(self, overrides=dict(overrides))


class ProblemSet:
    """The problems under one folder laid out as `level1/1_Name.py`; any KernelBench checkout will do."""

    def __init__(self, root: Path = PROBLEM_SET) -> None:
        self.root = root
        self._paths = {level: _level_paths(root, level) for level in PROBLEM_COUNTS}
        if not any(self._paths.values()):
            raise FileNotFoundError(f"no problem files like level1/1_Name.py under {root}")

    def ids(self, level: int) -> list[int]:
        """The problem ids present in a level, sorted."""
        if level not in self._paths:
            raise ValueError(f"level must be one of {sorted(self._paths)}, got {level}")
        return sorted(self._paths[level])

    def load(self, level: int, problem_id: int) -> Problem:
        """Read one problem, without a byte-order mark; raise KeyError where the folder lacks it."""
        if problem_id not in self.ids(level):
            raise KeyError(f"level {level} has no problem {problem_id} under {self.root}")
        path = self._paths[level][problem_id]
        return Problem(
            level=level, problem_id=problem_id, name=path.stem, source=path.read_text("utf-8-sig"), path=path
        )

    def find(self, name: str, level: int | None = None) -> Problem:
        """Look a problem up by its name, with or without `.py`; raise KeyError where there is none."""
        stem = name.removesuffix(".py")
        for at, paths in self._paths.items():
            for problem_id, path in paths.items():
                if path.stem == stem and level in (None, at):
                    return self.load(at, problem_id)
        raise KeyError(f"no problem named {stem!r} under {self.root}")

    def __iter__(self) -> Iterator[Problem]:
        for level, paths in self._paths.items():
            for problem_id in sorted(paths):
                yield self.load(level, problem_id)

    def sha256(self) -> str:
        """Digest of the whole set: of every problem's place and content."""
        lines = (f"{p.level}/{p.problem_id} {p.name} {p.sha256}\n" for p in self)
        return hashlib.sha256("".join(lines).encode()).hexdigest()


def read_sizes(path: Path = PROBLEM_SET / "sizes.json") -> dict[str, dict[str, Any]]:
    """Read the table of reduced sizes: `{"1_19": {"batch_size": 4}, …}`."""
    sizes: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8"))["sizes"]
    return sizes


def _is_alike(problem: Problem, names: Iterable[str]) -> bool:
    """Say whether a problem gives module-level constants the values that ours of its place gives them."""
    ours = _ours().load(problem.level, problem.problem_id).source
    try:
        return problem.source == ours or _values(problem.source, names) == _values(ours, names)
    except SyntaxError:
        return False


@cache
def _ours() -> ProblemSet:
    return ProblemSet()


def _values(source: str, names: Iterable[str]) -> dict[str, str]:
    values = {name: ast.dump(statement.value) for name, statement in _assigned(ast.parse(source))}
    return {name: values.get(name, "") for name in names}


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.Assign]]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield target.id, statement


def apply_sizes(source: str, overrides: Mapping[str, Any]) -> str:
    """Set module-level constants right after the statement that assigns each, so derived ones follow.

    Raises ValueError where the source assigns no such constant.
    """
    ends = {name: statement.end_lineno or 0 for name, statement in _assigned(ast.parse(source))}
    missing = set(overrides) - set(ends)
    if missing:
        raise ValueError(f"the problem has no module-level constant {sorted(missing)}")
    lines = source.splitlines()
    for name, value in sorted(overrides.items(), key=lambda item: -ends[item[0]]):
        lines.insert(ends[name], f"{name} = {value!r}")
    return "\n".join(lines) + "\n"


def _level_paths(root: Path, level: int) -> dict[int, Path]:
    found: dict[int, Path] = {}
    for path in _files(root / f"level{level}"):
        match = _FILE.fullmatch(path.name)
        if match:
            found[int(match[1])] = path
    return found


def _files(folder: Path) -> Iterable[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []
