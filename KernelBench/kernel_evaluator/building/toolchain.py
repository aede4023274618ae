"""What a build hangs on beside the kernel: the target, the compilers, the interpreter, this code."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import subprocess
import sys
from functools import cache as cached

from kernel_evaluator.building.extensions import target_arch
from kernel_evaluator.records.places import PACKAGE


@cached
def local_arch() -> str:
    """Give this machine's first GPU as TORCH_CUDA_ARCH_LIST takes it; empty where there is none."""
    chosen = os.environ.get("TORCH_CUDA_ARCH_LIST")
    if chosen:
        return chosen
    line = _first_line(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader", "--id=0"])
    match = re.fullmatch(r"(\d+)\.(\d+)", line.strip())
    return target_arch((int(match[1]), int(match[2]))) if match else ""


@cached
def toolchain_sha256(arch: str) -> str:
    """Digest what a build hangs on beside the kernel: interpreter, PyTorch, compilers, target, this code."""
    digest = hashlib.sha256()
    for command in (
        [os.environ.get("CXX", "c++"), "--version"],
        ["nvcc", "--version"],
        ["ninja", "--version"],
    ):
        digest.update(_output(command))
    try:
        torch_version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch_version = ""
    digest.update(f"{sys.version}\n{torch_version}\n{arch}\n".encode())
    here = PACKAGE / "building"
    for path in sorted([*here.rglob("*.py"), *here.rglob("*.h")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _first_line(command: list[str]) -> str:
    return (_output(command).decode("utf-8", "replace").splitlines() or [""])[0]


def _output(command: list[str]) -> bytes:
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return b""
