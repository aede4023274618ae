"""Which evaluator this is: a version for people, and a digest that changes when a verdict or a time may.

The digest follows meaning: comments, docstrings and the layout of lines are no part of it. All that lies in
the package is, in whatever folder, but for what is named here as deciding nothing.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from kernel_evaluator.records.places import PACKAGE, PROBLEM_SET

EVALUATOR_VERSION = "0.1.0"

DECIDE_NOTHING = (
    "baselines.py",
    "engines/epoch.py",
    "engines/image.py",
    "engines/meter.py",
    "engines/modal.py",
    "engines/modal_app.py",
    "engines/modal_guard.py",
    "engines/remote_build.py",
    "engines/wire.py",
    "engines/worker.py",
    "labels/static_check.py",
    "machine/architectures.py",
    "machine/devices.py",
    "machine/extras.py",
    "proofs",
    "replay.py",
    "scores.py",
    "upstream/files.py",
)
"""Files and folders of the package that have no part in a verdict or a time: what a change there breaks is
the journey of jobs and rows, the scores made of rows, or the proofs of the problem set."""

_SHIPPED = "problem_set"
"""Where an installed package keeps the problems. They have digests of their own, which rows name."""

_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@cache
def evaluator_sha256() -> str:
    """Digest of all that decides a verdict or a time; rows of another digest are measured anew."""
    return digest_of(PACKAGE, PROBLEM_SET)


def digest_of(package: Path, tables: Path) -> str:
    """Digest of an evaluator's folder, of the figures that its floors come from, and of what inputs tell."""
    digest = hashlib.sha256()
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.h")]):
        name = path.relative_to(package).as_posix()
        if not any(name == other or name.startswith(f"{other}/") for other in (*DECIDE_NOTHING, _SHIPPED)):
            digest.update(f"{name}\0{_meaning(path)}\0".encode())
    told = [_read(tables / "figures.json"), *map(_told_by_inputs, sorted(tables.glob("sharpness*.json")))]
    for each in told:
        digest.update(json.dumps(each, sort_keys=True).encode())
    return digest.hexdigest()


def _read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _told_by_inputs(path: Path) -> dict[str, Any]:
    """What decides which inputs are timed: not when, where or by which twins that was found."""
    entries = [entry for problems in _read(path)["problems"].values() for entry in problems.values()]
    return {
        entry["problem_sha256"]: [entry["variant"], entry["inputs"]] for entry in entries if "inputs" in entry
    }


def digest_of_files(names: Iterable[str], package: Path = PACKAGE) -> str:
    """Digest of what some of the package's files and folders mean."""
    digest = hashlib.sha256()
    for name in names:
        place = package / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(f"{path.relative_to(package).as_posix()}\0{_meaning(path)}\0".encode())
    return digest.hexdigest()


def _meaning(path: Path) -> str:
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        return "".join(_written(ast.parse(text)))
    return " ".join(_COMMENTS.sub(" ", text).split())


def _written(node: Any) -> Iterator[str]:
    """A syntax tree as text, the same by every version of Python, without what is empty or text alone."""
    if isinstance(node, list):
        for item in node:
            if not (isinstance(item, ast.Expr) and _is_text(item.value)):
                yield from _written(item)
    elif isinstance(node, ast.AST):
        yield f"({type(node).__name__}"
        for name, value in ast.iter_fields(node):
            if value not in (None, []) or (isinstance(node, ast.Constant) and name == "value"):
                yield f" {name}="
                yield from _written(value)
        yield ")"
    else:
        yield repr(node)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
