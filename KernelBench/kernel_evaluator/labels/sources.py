"""What a kernel's source uses, read off its text: facts for labels and for the build stage.

Reads, never executes, and never rejects: a source can hide what it uses, and then only costs time.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

COMPILER = "torch.compile"

_EXTENSIONS = "torch.utils.cpp_extension"


class Backend(StrEnum):
    """A way of writing a kernel."""

    LOAD_INLINE = "load_inline"
    LOAD = "load"
    TRITON = "triton"
    GLUON = "gluon"
    HELION = "helion"
    CUTILE = "cutile"
    CUTE = "cute"
    CUTLASS = "cutlass"
    TILELANG = "tilelang"
    THUNDERKITTENS = "thunderkittens"
    MATHDX = "mathdx"
    TVM_FFI = "tvm-ffi"
    HIP = "hip"
    NVRTC = "nvrtc"
    TORCH = "torch"


_BY_IMPORT = {
    "triton": Backend.TRITON,
    "helion": Backend.HELION,
    "cutlass": Backend.CUTE,
    "tilelang": Backend.TILELANG,
    "tvm_ffi": Backend.TVM_FFI,
    "cupy": Backend.NVRTC,
}
_BY_CALL = {
    f"{_EXTENSIONS}.load_inline": Backend.LOAD_INLINE,
    f"{_EXTENSIONS}.load": Backend.LOAD,
    "torch.cuda._compile_kernel": Backend.NVRTC,
}
_BY_TEXT = {
    re.compile(r"\btriton\.experimental(?:\.| import )gluon\b"): Backend.GLUON,
    re.compile(r"\bimport cuda\.tile\b|\bfrom cuda(?: import tile|\.tile)\b"): Backend.CUTILE,
    re.compile(r"#\s*include\s*[<\"](?:cublasdx|cufftdx|cusolverdx|curanddx)\.hpp"): Backend.MATHDX,
    re.compile(r"kittens\.cuh|THUNDERKITTENS_ROOT|namespace\s+kittens"): Backend.THUNDERKITTENS,
    re.compile(r"hip/hip_runtime|\bhipcc\b|\bhipLaunchKernel"): Backend.HIP,
    re.compile(r"\bcut(?:e|lass)::|#\s*include\s*[<\"]cut(?:e|lass)/"): Backend.CUTLASS,
}


@dataclass(frozen=True, kw_only=True)
class SourceFacts:
    """What a source uses.

    `needs_build`: it may compile C++ or CUDA through PyTorch. `builds_late`: it does so inside a function,
    when the model is made or called, rather than at import. `has_triton`: its own kernels are Triton's or
    Gluon's, which can be compiled ahead. What Helion and torch's compiler write is tuned on a GPU first.
    """

    backends: tuple[Backend, ...]
    needs_build: bool
    builds_late: bool
    has_triton: bool

    @property
    def is_built_ahead(self) -> bool:
        """Whether a process without a GPU has something to compile."""
        return self.needs_build or self.has_triton


def recognise(source: str) -> SourceFacts:
    """Say what a source uses; one that is no Python, or nested too deeply, is judged by its words alone."""
    needs_build = "cpp_extension" in source
    found = {backend for pattern, backend in _BY_TEXT.items() if pattern.search(source)}
    uses = _Uses()
    try:
        uses.visit(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        words = set(re.findall(r"\w+", source))
        found |= {backend for backend in Backend if backend in words and backend is not Backend.TORCH}
        return SourceFacts(
            backends=_ordered(found), needs_build=needs_build, builds_late=needs_build, has_triton=False
        )
    found |= {_BY_IMPORT[name] for name in uses.packages if name in _BY_IMPORT}
    found |= {_BY_CALL[name] for name, _ in uses.references if name in _BY_CALL}
    late = any(inside for name, inside in uses.references if name in _BY_CALL)
    hidden = not any(name in _BY_CALL for name, _ in uses.references)
    is_tuned = Backend.HELION in found or COMPILER in source
    return SourceFacts(
        backends=_ordered(found),
        needs_build=needs_build,
        builds_late=needs_build and (late or hidden),
        has_triton=bool(found & {Backend.TRITON, Backend.GLUON}) and not is_tuned,
    )


def _ordered(found: set[Backend]) -> tuple[Backend, ...]:
    return tuple(backend for backend in Backend if backend in found) or (Backend.TORCH,)


class _Uses(ast.NodeVisitor):
    """Collects imported packages, and dotted names with whether a function surrounds them."""

    def __init__(self) -> None:
        self.packages: set[str] = set()
        self.references: set[tuple[str, bool]] = set()
        self._names: dict[str, str] = {}
        self._depth = 0

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.packages.add(alias.name.partition(".")[0])
            if alias.asname:
                self._names[alias.asname] = alias.name

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        self.packages.add(module.partition(".")[0])
        for alias in node.names:
            self._names[alias.asname or alias.name] = f"{module}.{alias.name}"

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Name(self, node: ast.Name) -> None:
        self._refer(self._names.get(node.id, node.id))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        parts = list(_dotted(node))
        if parts:
            first, *rest = reversed(parts)
            self._refer(".".join([self._names.get(first, first), *rest]))
        self.generic_visit(node)

    def _refer(self, name: str) -> None:
        self.references.add((name, self._depth > 0))


def _dotted(node: ast.expr) -> Iterator[str]:
    """The parts of `a.b.c`, last first; nothing where the chain does not begin with a name."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        yield from [*parts, node.id]
