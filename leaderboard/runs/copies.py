"""Tells submissions that hold the same kernel, by what is compiled, not by names, spaces or comments."""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from kernel_evaluator.records.keys import KernelKey

from leaderboard.texts.python_source import parsed


def structure_sha256(source: str) -> str:
    """Digest what a source does, not how it reads, in Python and in the C++ and CUDA that its strings hold.

    Names of its own, comments, spaces, docstrings, imports that nothing uses and constants that nobody reads
    are left out. A source that does not parse, or that is too deep to be walked, has its text's digest.
    """
    try:
        tree = parsed(source)
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
        self._read = Counter(
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        )
        declared = set(_declared_names(tree)) - _FIXED
        self._bound |= declared
        self._attributes |= declared
        self._declared = declared
        self._numbers: dict[str, str] = {}

    def visit(self, node: ast.AST) -> Any:
        """Rename, drop docstrings, and go on with the children."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return ast.Constant(self._rewritten(node.value))
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
            node.body = [child for child in body if not self._is_dead(child)]  # type: ignore[attr-defined]
        return self.generic_visit(node)

    def _is_dead(self, node: ast.AST) -> bool:
        """Whether a statement does nothing: a text, an import without use, a constant that nobody reads."""
        if isinstance(node, ast.Import | ast.ImportFrom):
            return not any(self._read[(each.asname or each.name).partition(".")[0]] for each in node.names)
        if isinstance(node, ast.Assign):
            is_read = any(not isinstance(each, ast.Name) or self._read[each.id] for each in node.targets)
            return isinstance(node.value, ast.Constant) and not is_read
        return isinstance(node, ast.Pass) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        )

    def _rewritten(self, text: str) -> str:
        """A string as it is compared: C++ as its tokens, a name that C++ declares by its number."""
        if not _is_cpp(text):
            return self._numbered_in_cpp(text)
        tokens = _tokens(text)
        members = [before == "." for before in ["", *tokens][:-1]]  # threadIdx.x is not a name of its own
        return " ".join(
            token if is_member else self._numbered_in_cpp(token)
            for token, is_member in zip(tokens, members, strict=True)
        )

    def _numbered_in_cpp(self, name: str) -> str:
        """C++ counts its names apart: one that it shares with Python by chance says nothing."""
        if name not in self._declared:
            return name
        return self._numbers.setdefault(f"C++ {name}", f"name{len(self._numbers)}")

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


_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)              # comments
      | "(?:\\.|[^"\\])*(?:"|\\?\Z)            # texts
      | '(?:\\.|[^'\\])*(?:'|\\?\Z)
      | [A-Za-z_]\w* | \.?\d[\w.]*              # names and numbers
      | \n[ \t]*\#[^\n]*                         # what the preprocessor reads goes by lines
      | \S""",
    re.VERBOSE | re.DOTALL,
)
"""What opens and never closes goes to the end of the text; else an end is looked for from each of them."""
_NOT_TYPES = {
    "return",
    "else",
    "new",
    "delete",
    "throw",
    "case",
    "goto",
    "sizeof",
    "typename",
    "operator",
    "using",
}


def _is_cpp(text: str) -> bool:
    return "#include" in text or "__global__" in text or (";" in text and "{" in text and "(" in text)


def _tokens(text: str) -> list[str]:
    found = (each.group().strip() for each in _TOKEN.finditer("\n" + text.replace("\\\n", " ")))
    return [
        " ".join(each.split()) if each.startswith("#") else each
        for each in found
        if each[:2] not in ("//", "/*")
    ]


def _declared_names(tree: ast.AST) -> Iterator[str]:
    """Names that C++ in strings declares: after a type, and before what can follow a new name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_cpp(node.value):
            tokens = _tokens(node.value)
            for before, name, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
                is_typed = (before.isidentifier() and before not in _NOT_TYPES) or before in ("*", "&", ">")
                if is_typed and name.isidentifier() and after in ("=", ";", ",", ")", "(", "[", "{"):
                    yield name
