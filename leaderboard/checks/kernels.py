"""Checks of each kernel's text: size, characters, syntax, the name ModelNew. Never imports or runs one."""

from __future__ import annotations

import ast
import platform
import re
import warnings
from collections.abc import Iterator

from leaderboard.checks.document import MAX_KERNEL_BYTES, Document, Spot, quoted
from leaderboard.garbage import without_collection
from leaderboard.texts.json_positions import offset_inside
from leaderboard.texts.python_source import parsed

CLASS_NAME = "ModelNew"
DEEPEST = 250
"""Levels of a kernel's syntax tree: reading one takes the evaluator up to three of Python's 1,000 frames."""

_FAILS = "; it will fail to compile"
_TOO_DEEP = "it is nested too deeply"
_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE_END = re.compile(r"\r\n|\r|\n")


def surrogates(document: Document) -> Iterator[Spot]:
    """Require text that can be encoded: an escape like \\ud800 alone stands for no character."""
    for path, text in _strings(document.value, ()):
        match = _SURROGATE.search(text)
        if match:
            found = f"{_name(path)} holds the lone surrogate {quoted(match[0])}"
            yield _spot(document, path, match.start(), found, "write the character itself")


def kernel_size(document: Document) -> Iterator[Spot]:
    """Bound one kernel by 512 KiB of UTF-8."""
    for key, source in document.kernels.items():
        size = len(source.encode("utf-8", "surrogatepass"))
        if size > MAX_KERNEL_BYTES:
            found = f"kernel {quoted(key)} has {size:,} bytes"
            mend = f"submit at most {MAX_KERNEL_BYTES // 1024} KiB a kernel"
            yield _spot(document, ("kernels", key), 0, found, mend)


def kernel_nul(document: Document) -> Iterator[Spot]:
    """Point at NUL in sources: Python cannot compile one."""
    for key, source in document.kernels.items():
        index = source.find("\0")
        if index >= 0:
            found = f"kernel {quoted(key)} holds a NUL character on line {_line_of(source, index)}{_FAILS}"
            yield _spot(document, ("kernels", key), index, found, "remove it")


def kernel_coding(document: Document) -> Iterator[Spot]:
    """Refuse a coding comment other than UTF-8: it would make the file mean something else than the text."""
    for key, source in document.kernels.items():
        for line in _LINE_END.split(source, 2)[:2]:
            match = _COOKIE.match(line)
            if match and match[1].lower().replace("_", "-") not in ("utf-8", "utf8"):
                found = f"kernel {quoted(key)} declares the encoding {quoted(match[1])}"
                yield _spot(document, ("kernels", key), 0, found, "remove the comment; sources are UTF-8")
            if line.strip() and not line.lstrip().startswith("#"):
                break


def kernel_syntax(document: Document) -> Iterator[Spot]:
    """Point at what does not parse, or binds no ModelNew at module level: it will not compile."""
    for key, source in document.kernels.items():
        if "\0" in source or _SURROGATE.search(source):
            continue
        tree = _parse(source)
        if isinstance(tree, _Unparsable):
            found = f"kernel {quoted(key)} is not Python {platform.python_version()}: {tree.reason}{_FAILS}"
            mend = "submit source that `python -m py_compile` accepts"
            yield _spot(document, ("kernels", key), tree.index, found, mend)
        elif _depth(tree) > DEEPEST:
            found = f"kernel {quoted(key)} is nested more than {DEEPEST} levels deep{_FAILS}"
            mend = "split its longest expression, or chain of elif, into several statements"
            yield _spot(document, ("kernels", key), 0, found, mend)
        elif CLASS_NAME not in bound_names(tree):
            found = f"kernel {quoted(key)} defines no {CLASS_NAME}{_FAILS}"
            yield _spot(document, ("kernels", key), 0, found, f"name the module's class {CLASS_NAME}")


def is_too_deep(source: str) -> bool:
    """Whether a kernel is nested deeper than what judges it can read."""
    tree = _parse(source)
    return tree.reason == _TOO_DEEP if isinstance(tree, _Unparsable) else _depth(tree) > DEEPEST


@without_collection()
def _depth(tree: ast.AST) -> int:
    depth, level = 0, [tree]
    while level:
        depth, level = depth + 1, [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


class _Unparsable:
    """Why a source does not parse, and the character where that shows."""

    def __init__(self, reason: str, index: int = 0) -> None:
        self.reason = reason
        self.index = index


@without_collection()
def _parse(source: str) -> ast.Module | _Unparsable:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parsed(source.removeprefix("\ufeff"))  # Python leaves it out, too
    except SyntaxError as error:
        line, column = error.lineno or 1, max(error.offset or 1, 1)
        reason = f"{quoted(error.msg, 160)[1:-1]} (line {line}, column {column})"
        return _Unparsable(reason, _index_of(source, line, column))
    except ValueError as error:
        return _Unparsable(quoted(str(error), 160)[1:-1])
    except (RecursionError, MemoryError):
        return _Unparsable(_TOO_DEEP)


def bound_names(tree: ast.Module) -> Iterator[str]:
    """Names bound at module level by whatever statement; what classes and functions bind stays inside."""
    open_nodes: list[ast.AST] = [tree]
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
            continue
        if isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif not isinstance(node, ast.Lambda):
            open_nodes.extend(ast.iter_child_nodes(node))


def _strings(value: object, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every string of the value; the walker has bounded the depth."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _strings(item, (*path, index))


def _spot(document: Document, path: tuple[str | int, ...], index: int, message: str, mend: str) -> Spot:
    start = document.offset(*path)
    offset = offset_inside(document.text, start, index) if index else start
    return Spot(offset=offset, message=message, mend=mend)


def _name(path: tuple[str | int, ...]) -> str:
    return quoted(".".join(str(part) for part in path), 80)


def _line_of(source: str, index: int) -> int:
    return len(_LINE_END.findall(source, 0, index)) + 1


def _index_of(source: str, line: int, column: int) -> int:
    start = 0
    for _, match in zip(range(line - 1), _LINE_END.finditer(source), strict=False):
        start = match.end()
    return min(start + column - 1, len(source))
