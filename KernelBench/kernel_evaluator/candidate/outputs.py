"""What a model gave: the leaves of its output, their structure, what is claimed about each; or its error.

Runs beside the model, so all of it is that process's own word. Never looks at values.
"""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Any

import torch

from kernel_evaluator.candidate.frames import DTYPES, Leaf
from kernel_evaluator.records.places import PACKAGE

KERNEL = "kernel_"
"""So begins the name of a file that a kernel's source is written to."""

_MAX_LINE = 300


def flatten(output: Any) -> tuple[list[Any], str]:
    """Give the leaves of an output in order, and its structure as text: `t`, `(t,t)`, `{a:t}`."""
    if isinstance(output, (tuple, list)):
        parts = [flatten(part) for part in output]
        return [leaf for leaves, _ in parts for leaf in leaves], f"({','.join(text for _, text in parts)})"
    if isinstance(output, dict):
        named = {str(key): flatten(value) for key, value in output.items()}
        inside = ",".join(f"{key}:{text}" for key, (_, text) in named.items())
        return [leaf for leaves, _ in named.values() for leaf in leaves], f"{{{inside}}}"
    return [output], "t"


def claim(leaf: Any) -> Leaf:
    """Say what a leaf is; the running process's own claim."""
    if not isinstance(leaf, torch.Tensor):
        return Leaf(dtype="other", shape=(), device="cpu", is_plain_tensor=False, is_dense=False)
    return Leaf(
        dtype=dtype_name(leaf.dtype),
        shape=tuple(leaf.shape),
        device=leaf.device.type,
        is_plain_tensor=type(leaf) is torch.Tensor,
        is_dense=leaf.layout is torch.strided and not _overlaps(leaf),
        order=memory_order(leaf),
    )


def memory_order(tensor: torch.Tensor) -> tuple[int, ...]:
    """Give a tensor's dimensions from the outermost in memory to the innermost."""
    if tensor.layout is not torch.strided:
        return tuple(range(tensor.dim()))
    strides = tensor.stride()
    return tuple(sorted(range(tensor.dim()), key=lambda at: -strides[at]))


def share_memory(leaf: Any, other: torch.Tensor) -> bool:
    """Say whether a leaf lies in another tensor's memory; the running process's own claim."""
    if type(leaf) is not torch.Tensor or leaf.layout is not torch.strided:
        return False
    return leaf.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _overlaps(tensor: torch.Tensor) -> bool:
    span = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride < span:
                return True
            span = stride * size
    return False


def dtype_name(dtype: torch.dtype) -> str:
    """Name an element type as frames do; `other` where they have no name for it."""
    name = str(dtype).removeprefix("torch.")
    return name if name in DTYPES else "other"


def describe_error(error: BaseException) -> str:
    """Say an error's name, message and where it came from, each on its own line.

    One without a message is told by the last line of the kernel that led to it. Results are public: our own
    files are named from the package on, not by this machine's folders.
    """
    trail = "".join(traceback.format_exception(error)[-12:]).replace(f"{PACKAGE.parent}{os.sep}", "")
    try:
        message = str(error)[:4000]
    except BaseException:  # noqa: BLE001 (an error's text is submitted code, too)
        message = "its text cannot be made"
    if not message.strip():
        message = f"without a message{_line_of(error)}"
    return f"{type(error).__module__}.{type(error).__name__}\n{message}\n{trail[-6000:]}"


def _line_of(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).name.startswith(KERNEL)]
    return f", at line {own[-1].lineno}: {own[-1].line}"[:_MAX_LINE] if own else ""
