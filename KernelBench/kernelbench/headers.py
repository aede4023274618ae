"""Slimmer PyTorch headers for one extension: the tensor class with the operators that its source names.

Nearly all of a kernel's compile time goes into headers. What is written here stands in front of PyTorch's
own through CPATH; neither the source nor a flag changes. A source that needs more fails to compile against
it, and is then built against the full headers, so this decides about time alone.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

STATIC = Path(__file__).resolve().parent / "include"

_NEEDS_MORE = re.compile(
    r"torch\s*::\s*(?:nn|autograd|jit|optim|fft|linalg|special|sparse|nested|indexing|random|mps|data|serialize|library|python|tensor)\b"
    r"|TORCH_LIBRARY|requires_grad|TensorIndex|globalContext|Generator|IListRef|IValue|#\s*include\s*[<\"](?:torch/(?!extension\.h|types\.h|all\.h|torch\.h)|ATen/native)"
)
_BINDS = re.compile(r"\bpy\s*::|pybind11|PYBIND11")
_WORD = re.compile(r"[A-Za-z_]\w*")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_METHOD = re.compile(
    r"^// aten::[^\n]*\ninline [^\n]*?\bTensor::(\w+)\([^\n]*\n[^\n]*?at::_ops::(\w+)::call[^\n]*\n\}\n",
    re.MULTILINE,
)
_DECLARATION = re.compile(r"^  (?!using|//)[^\n(]*?\b(\w+)\([^\n]*\) const(?: &)?;\n", re.MULTILINE)
_HEAVY_INCLUDE = re.compile(
    r"^#include <ATen/(?:Context|TensorUtils|TracerMode|core/Generator)\.h>\n", re.MULTILINE
)
_PATTERNS_MATCH_AT_LEAST = 100


def write_slim(folder: Path, torch_include: Path, cpp: str, cuda: str) -> Path | None:
    """Write headers for the sources given into `folder`; None where the full ones are needed.

    `cpp` and `cuda` are all the text that goes to the C++ compiler and to nvcc.
    """
    if _NEEDS_MORE.search(cpp) or _NEEDS_MORE.search(cuda):
        return None
    body = (torch_include / "ATen/core/TensorBody.h").read_text("utf-8")
    methods = {match[1]: match[2] for match in _METHOD.finditer(body)}
    if len(methods) < _PATTERNS_MATCH_AT_LEAST:
        return None
    words = set(_WORD.findall(cpp)) | set(_WORD.findall(cuda))
    slim_body, operators = _slim_body(body, words | _words_of_neighbours(torch_include))
    shutil.copytree(STATIC, folder, dirs_exist_ok=True)
    known = {path.name for path in (torch_include / "ATen/ops").iterdir()}
    named = sorted(words - {"tensor"} | {"empty_like"})
    functions = [f"ATen/ops/{word}.h" for word in named if f"{word}.h" in known]
    _write(folder / "ATen/core/TensorBody.h", slim_body)
    for header in ("ATen/cuda/CUDAContext.h", *functions):
        text = (torch_include / header).read_text("utf-8")
        _write(folder / header, _HEAVY_INCLUDE.sub("", text))
    _write(
        folder / "ATen/MethodOperators.h",
        _includes(["ATen/core/ATen_fwd.h", *_operator_headers(operators, known)]),
    )
    _write(folder / "ATen/Functions.h", _includes([*functions, "ATen/TensorOperators.h"]))
    _write(folder / "ATen/NativeFunctions.h", _includes(["ATen/Functions.h"]))
    if _BINDS.search(cuda):
        extension = folder / "torch/extension.h"
        extension.write_text("#define KERNELBENCH_BINDS_IN_CUDA\n" + extension.read_text("utf-8"), "utf-8")
    return folder


def _slim_body(body: str, words: set[str]) -> tuple[str, set[str]]:
    """Cut the tensor class down to the methods named in `words` or by its own inline code."""
    by_hand = _DECLARATION.sub("", _METHOD.sub("", body))
    wanted = words | set(_WORD.findall(_COMMENT.sub("", by_hand)))
    generated = {match[1] for match in _METHOD.finditer(body)}
    operators: set[str] = set()

    def keep_method(match: re.Match[str]) -> str:
        if match[1] not in wanted:
            return ""
        operators.add(match[2])
        return match[0]

    def keep_declaration(match: re.Match[str]) -> str:
        return match[0] if match[1] in wanted or match[1] not in generated else ""

    return _DECLARATION.sub(keep_declaration, _METHOD.sub(keep_method, body)), operators


def _words_of_neighbours(torch_include: Path) -> set[str]:
    """Names that the headers every extension reads use in inline code of their own."""
    headers = ("ATen/TensorOperators.h", "ATen/core/Tensor.h")
    texts = ((torch_include / header).read_text("utf-8") for header in headers)
    return {word for text in texts for word in _WORD.findall(_COMMENT.sub("", text))}


def _operator_headers(operators: Iterable[str], known: set[str]) -> list[str]:
    """Find the header that declares each operator: the longest `<prefix>_ops.h` there is."""
    found = set()
    for operator in operators:
        prefixes = (operator[:end] for end in range(len(operator), 0, -1))
        header = next((name for prefix in prefixes if (name := f"{prefix}_ops.h") in known), None)
        if header is not None:
            found.add(f"ATen/ops/{header}")
    return sorted(found)


def _includes(headers: Iterable[str]) -> str:
    return "#pragma once\n" + "".join(f"#include <{header}>\n" for header in headers)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
