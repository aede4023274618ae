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

from kernel_evaluator.records.places import PACKAGE

STATIC = PACKAGE / "building" / "include"

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
_HEAVY_INCLUDE = re.compile(r"^#include <ATen/(?:Context|TensorUtils|TracerMode)\.h>\n", re.MULTILINE)
_GENERATOR_INCLUDE = "#include <ATen/core/Generator.h>\n"
_CONTEXT = "ATen/cuda/CUDAContext.h"
_EVERYWHERE = ("ATen/TensorOperators.h", "ATen/core/Tensor.h")
_LISTS = ("ATen/core/IListRef.h", "ATen/core/List_inl.h", "ATen/core/ivalue.h", "ATen/core/ivalue_inl.h")
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
    shutil.copytree(STATIC, folder, dirs_exist_ok=True)
    known = {path.name for path in (torch_include / "ATen/ops").iterdir()}
    named = sorted(words - {"tensor"} | {"empty_like"})
    functions = [f"ATen/ops/{word}.h" for word in named if f"{word}.h" in known]
    texts = {name: _lighter((torch_include / name).read_text("utf-8")) for name in [_CONTEXT, *functions]}
    lists = _LISTS if any("ITensorListRef" in text for text in texts.values()) else ()
    texts["ATen/Functions.h"] = _includes([*lists[:1], *functions, "ATen/TensorOperators.h"])
    texts["ATen/NativeFunctions.h"] = _includes(["ATen/Functions.h"])
    inline = _words_in(torch_include, [*_EVERYWHERE, *lists])
    texts["ATen/core/TensorBody.h"], operators = _slim_body(body, words | inline)
    declarations = _operator_headers(operators, known)
    texts["ATen/MethodOperators.h"] = _includes(["ATen/core/ATen_fwd.h", *declarations])
    if _BINDS.search(cuda):
        extension = (STATIC / "torch/extension.h").read_text("utf-8")
        texts["torch/extension.h"] = "#define KERNELBENCH_BINDS_IN_CUDA\n" + extension
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def _lighter(text: str) -> str:
    """Leave out what an operator's header includes for the sake of its neighbours."""
    text = _HEAVY_INCLUDE.sub("", text)
    return text if "at::Generator" in text else text.replace(_GENERATOR_INCLUDE, "")


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


def _words_in(torch_include: Path, headers: Iterable[str]) -> set[str]:
    """Names that headers use in inline code of their own, comments aside."""
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
