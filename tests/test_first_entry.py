"""The page for a first entry: its commands end as it says, and its kernels are right where this machine can tell."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

import commandline
import numpy
import pytest
from kernel_evaluator.engines import epoch

from leaderboard.checks.report import validate_file

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import worked  # noqa: E402

WORKED = ROOT / "examples/worked"
NAME = "level_1_problem_88_sample_0"
BACKENDS = sorted(path.name for path in WORKED.iterdir())

HOST = """
#include <cmath>
#include <cstdint>
#define __global__ extern "C"
#define __restrict__
static struct { unsigned x; } blockIdx, blockDim, threadIdx;
"""
LAUNCH = """
extern "C" void launch(const float* x, float* y, int64_t n) {
    blockDim.x = 256;
    for (blockIdx.x = 0; blockIdx.x < (n + 255) / 256; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < 256; ++threadIdx.x) new_gelu_kernel(x, y, n);
}
"""


def test_the_script_that_judges_the_worked_kernels_finds_one_of_each_backend() -> None:
    files = {
        path.read_text("utf-8")
        for name in BACKENDS
        if name != "wrong"
        for path in (WORKED / name).glob("*.py")
    }
    assert set(worked.kernels().values()) == files
    assert len(worked.kernels()) == len(files) == len(BACKENDS) - 1


def kbl(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "leaderboard", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=280)


def kbl_until_judged(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command; `evaluate` is to be repeated where the host was too busy for a verdict."""
    for _ in range(5):
        ended = kbl(folder, *arguments)
        if arguments[0] != "evaluate" or ended.returncode != 1:
            break
    return ended


def find_distribution(name: str) -> Distribution | None:
    return next(iter(distributions(name=name)), None)


def row(folder: Path, entry: str) -> dict[str, Any]:
    (path,) = folder.glob(f"build/evaluations/*/{entry}.json")
    (found,) = json.loads(path.read_text("utf-8"))["rows"]
    return found


def pack(folder: Path, backend: str) -> Path:
    path = folder / "submissions" / f"{backend}.json"
    path.parent.mkdir()
    ended = commandline.kbl("pack", path, WORKED / backend, "--display-name", backend)
    assert 0 == ended.returncode, ended.stderr
    return path


@pytest.mark.timeout(900)
def test_the_commands_of_the_page_end_as_it_says(tmp_path: Path) -> None:
    page = (ROOT / "docs/first-entry.md").read_text("utf-8").partition("Kernels for a GPU end")[0]
    commands = [shlex.split(line)[1:] for line in page.splitlines() if line.startswith("    .venv/bin/kbl ")]
    (tmp_path / "submissions").mkdir()
    (tmp_path / "examples").symlink_to(ROOT / "examples")

    ended = [kbl_until_judged(tmp_path, *arguments) for arguments in commands]

    assert ["problems", "problems", "pack", "validate", "evaluate", "pack", "evaluate"] == [
        c[0] for c in commands
    ]
    assert [0] * len(commands) == [item.returncode for item in ended], [item.stderr for item in ended]
    assert row(tmp_path, "my-first")["status"] in ("correct", "quarantined")
    assert "mismatch" == row(tmp_path, "my-mistake")["status"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_worked_kernel_becomes_a_submission_without_mistakes(backend: str, tmp_path: Path) -> None:
    report = validate_file(pack(tmp_path, backend))

    assert (True, 1) == (report.is_fine, report.kernels)


def test_the_page_links_every_worked_kernel(tmp_path: Path) -> None:
    page = (ROOT / "docs/first-entry.md").read_text("utf-8")

    found = sorted(set(re.findall(r"\.\./examples/worked/([\w-]+)/\w+\.py", page)))
    assert BACKENDS == found


def test_the_cuda_kernel_computes_the_problem(tmp_path: Path) -> None:
    """Its body is plain C++ but for the indices: run on the host, block by block."""
    source = (WORKED / "cuda" / f"{NAME}.py").read_text("utf-8")
    body = re.search(r"__global__ .*?\n}\n", source, re.DOTALL)
    assert body
    (tmp_path / "kernel.cpp").write_text(HOST + body[0] + LAUNCH, "utf-8")
    library = tmp_path / "kernel.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, tmp_path / "kernel.cpp"], check=True)
    x = numpy.linspace(-9, 9, 1001, dtype=numpy.float32)
    y = numpy.full_like(x, numpy.nan)

    pointer = numpy.ctypeslib.ndpointer(numpy.float32)
    launch = ctypes.CDLL(str(library)).launch
    launch.argtypes = [pointer, pointer, ctypes.c_int64]
    launch(x, y, x.size)

    inner = numpy.sqrt(2 / numpy.pi) * (x + 0.044715 * x.astype(numpy.float64) ** 3)
    assert numpy.allclose(y, x / 2 * (1 + numpy.tanh(inner)), rtol=1e-5, atol=1e-6)


def test_the_triton_kernel_is_the_one_that_was_measured() -> None:
    measured = ROOT / "examples/first-light" / f"{NAME}.py"
    result = json.loads((ROOT / "data/results/H200/first-light.json").read_text("utf-8"))
    (found,) = [item for item in result["rows"] if item["key"] == NAME]

    assert measured.read_bytes() == (WORKED / "triton" / f"{NAME}.py").read_bytes()
    assert "correct" == found["status"]
    assert found["speedup"] > 7, "the page says: more than 7 times as fast"


@pytest.mark.gpu
@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "wrong"])
def test_a_worked_kernel_is_judged_correct_on_a_gpu(backend: str, tmp_path: Path) -> None:
    for part in epoch.PARTS:
        if backend in part.backends and not part.variable and find_distribution(part.distribution) is None:
            pytest.skip(f"{part.distribution} is not installed")
    for part in (*epoch.PARTS, *epoch.ARCHIVES):
        if backend in part.backends and part.variable and part.variable not in os.environ:
            pytest.skip(f"{part.variable} is not set")

    ended = kbl(tmp_path, "evaluate", str(pack(tmp_path, backend)))

    assert 0 == ended.returncode, ended.stderr
    assert "correct" == row(tmp_path, backend)["status"], ended.stderr
