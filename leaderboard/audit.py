"""Runs recorded rows once more, in fresh processes and with new seeds, and says where they no longer hold.

Also tells submissions that hold the same kernel under other names. Reads results and sources; writes nothing.
"""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kernelbench.jobs import Engine, Job, Settings
from kernelbench.keys import KernelKey
from kernelbench.problems import Problem
from kernelbench.rows import ResultFile, Row, Status
from kernelbench.scores import intervals_apart, published_interval


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One row run again. `differs` says in what way; it is empty where both runs agree."""

    before: Row
    after: Row
    differs: str

    def to_json(self) -> dict[str, Any]:
        """Give the finding with the new row, which is the evidence."""
        return {
            "key": str(self.before.key),
            "differs": self.differs,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
        }


def choose(result: ResultFile, top: int) -> list[KernelKey]:
    """Name the rows that most need a second look: all in quarantine, and the fastest `top` of the correct."""
    waiting = [row.key for row in result.rows if row.status is Status.QUARANTINED]
    timed = [row for row in result.rows if row.is_correct and row.speedup is not None]
    fastest = sorted(timed, key=lambda row: -(row.speedup or 0.0))[:top]
    return sorted({*waiting, *(row.key for row in fastest)})


def audit(
    result: ResultFile,
    jobs: Iterable[Job],
    engine: Engine,
    settings: Settings,
) -> Iterator[Finding]:
    """Judge kernels again and compare each with its recorded row; findings come as verdicts do."""
    recorded = {row.key: row for row in result.rows}
    for verdict in engine.run(list(jobs), settings):
        before = recorded[verdict.row.key]
        yield Finding(before=before, after=verdict.row, differs=difference(before, verdict.row))


def jobs_for(
    keys: Collection[KernelKey],
    kernels: Mapping[KernelKey, str],
    problems: Mapping[tuple[int, int], Problem],
) -> list[Job]:
    """Make the jobs; raise ValueError that names the first kernel which the submission or the set lacks."""
    for key in sorted(keys):
        if key not in kernels:
            raise ValueError(f"the submission has no kernel {key}; name another with --submission")
        if (key.level, key.problem_id) not in problems:
            raise ValueError(f"the problem set has no problem {key.level}/{key.problem_id}")
    return [
        Job(key=key, source=kernels[key], problem=problems[(key.level, key.problem_id)])
        for key in sorted(keys)
    ]


def difference(before: Row, after: Row) -> str:
    """Say in what way two rows of one kernel disagree; empty where they do not."""
    if before.kernel_sha256 != after.kernel_sha256:
        return "the submission's source is not the one that was judged"
    if before.problem_sha256 != after.problem_sha256:
        return "the problem is not the one that was judged"
    if before.is_correct != after.is_correct:
        return f"was {before.status}, is {after.status}"
    one, other = published_interval(before.speedup_ci95), published_interval(after.speedup_ci95)
    if before.is_correct and one and other and intervals_apart(one, other) > 0:
        return f"speedup was {before.speedup:.3f}, is {after.speedup:.3f}"
    return ""


def structure_sha256(source: str) -> str:
    """Digest what a source does, not how it reads: names of its own, comments and docstrings are left out.

    Two sources of one digest are copies with other names. A source that does not parse, or that is too deep
    to be walked, has its text's digest.
    """
    try:
        tree = ast.parse(source)
        structure = ast.dump(_Anonymous(tree).visit(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        structure = source
    return hashlib.sha256(structure.encode("utf-8", "surrogatepass")).hexdigest()


def copies(kernels: Iterable[tuple[str, KernelKey, str]]) -> list[list[tuple[str, KernelKey]]]:
    """Group kernels of different entries, given as (entry, key, source), that are one and the same."""
    groups: dict[tuple[int, int, str], list[tuple[str, KernelKey]]] = defaultdict(list)
    for entry, key, source in kernels:
        groups[(key.level, key.problem_id, structure_sha256(source))].append((entry, key))
    return sorted(group for group in groups.values() if len({entry for entry, _ in group}) > 1)


class _Anonymous(ast.NodeTransformer):
    """Gives every name that the source itself binds a number, in order of appearance."""

    def __init__(self, tree: ast.AST) -> None:
        self._bound = set(_bound_names(tree))
        self._attributes = set(_bound_attributes(tree))
        self._imported = set(_imported_names(tree))
        self._numbers: dict[str, str] = {}

    def visit(self, node: ast.AST) -> Any:
        """Rename, drop docstrings, and go on with the children."""
        if field := _NAMED.get(type(node)):
            setattr(node, field, self._numbered(getattr(node, field)))
        elif isinstance(node, ast.alias):
            node.asname = self._numbered(node.asname or node.name)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            node.names = [self._numbered(name) for name in node.names]
        elif isinstance(node, ast.Attribute) and self._is_own(node):
            node.attr = self._numbered(node.attr)
        elif isinstance(node, ast.Call) and self._calls_own(node):
            for keyword in node.keywords:
                keyword.arg = self._numbered(keyword.arg)
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [child for child in body if not _is_text(child)]  # type: ignore[attr-defined]
        return self.generic_visit(node)

    def _is_own(self, node: ast.Attribute) -> bool:
        """Whether the source defines it, as a method or `self.x = …`, and it is of no imported module's."""
        is_of_name = isinstance(node.value, ast.Name) and node.value.id not in self._imported
        return is_of_name and node.attr in self._attributes

    def _calls_own(self, node: ast.Call) -> bool:
        """Whether the source itself defines what is called: `f(n=1)`, or a kernel as `f[grid](n=1)`."""
        called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
        return isinstance(called, ast.Name) and called.id in self._bound - self._imported

    def _numbered(self, name: Any) -> Any:
        return self._numbers.setdefault(name, f"name{len(self._numbers)}") if name in self._bound else name


def _bound_names(tree: ast.AST) -> Iterator[str]:
    yield from _imported_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif not isinstance(node, ast.Name):
            name = getattr(node, _NAMED.get(type(node), ""), None)
            if name and name not in _FIXED:
                yield name


def _bound_attributes(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.ClassDef):
            yield from (name for child in node.body if (name := getattr(child, "name", None)))


def _imported_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            yield node.asname or node.name


_FIXED = {"ModelNew", "forward", "__init__"}
_NAMED: dict[type[ast.AST], str] = {
    ast.Name: "id",
    ast.arg: "arg",
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
    ast.ExceptHandler: "name",
}
"""Where a node has its own name."""


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
