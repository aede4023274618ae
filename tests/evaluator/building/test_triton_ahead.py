"""Triton's kernels are compiled ahead, where there is no GPU, and a kernel's process finds them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import compiling
import pytest
from compiling import job
from evaluating import judge
from kernel_evaluator.building import builder as builder_module
from kernel_evaluator.building.builder import Builder, BuildStatus, Built
from kernel_evaluator.engines.remote_build import pack, read_builds, unpack
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.rows import Status

pytest.importorskip("triton", reason="Triton is not here: pip install triton")

PROBLEM = Problem(
    level=1,
    problem_id=1,
    name="1_Twice",
    source="import torch\n"
    "from torch import nn\n"
    "length = 4096\n"
    "class Model(nn.Module):\n"
    "    def forward(self, x):\n"
    "        return x + x\n"
    "def get_inputs():\n"
    "    return [torch.rand(length)]\n"
    "def get_init_inputs():\n"
    "    return []\n",
)

HEAD = """
import os
from pathlib import Path
import torch
import triton
import triton.language as tl
from torch import nn


{tuned}@triton.jit
def twice(x_ptr, y_ptr, n{known}, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x {operator} x, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        {first}
        y = torch.empty_like(x)
        twice[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(){block})
        return y
"""
TUNED = "@triton.autotune([triton.Config({'BLOCK': 256}), triton.Config({'BLOCK': 1024})], key=['n'])\n"


def kernel(*, tuned: bool = False, known: str = "", operator: str = "+", first: str = "pass") -> str:
    block = "" if tuned else ", BLOCK=1024"
    return HEAD.format(tuned=TUNED if tuned else "", known=known, operator=operator, first=first, block=block)


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    with Builder(cache_root=tmp_path_factory.mktemp("cache"), workers=1, arch="9.0a") as builder:
        yield builder


def build(builder: Builder, source: str) -> Built:
    return compiling.build(builder, source, PROBLEM)


def cubins(built: Built) -> list[Path]:
    return sorted(built.cache.glob("triton/*/*.cubin")) if built.cache else []


AS_CANDIDATE = """
import os, sys
from pathlib import Path
from kernel_evaluator.building import no_data, triton_ahead
folder = Path(sys.argv[2])
os.environ["TRITON_CACHE_DIR"] = str(folder)
triton_ahead.lay_out(Path(sys.argv[1]))
no_data.pretend_gpu((9, 0))
triton_ahead.compile_instead_of_launching(folder, (9, 0))
from triton.compiler import compiler
works, compiled = compiler.ASTSource.make_ir, []
compiler.ASTSource.make_ir = lambda *args, **kwargs: compiled.append(1) or works(*args, **kwargs)
from kernel_evaluator.problems.other_shapes import other_shapes
from kernel_evaluator.problems.problem_set import Problem
sys.path.insert(0, sys.argv[3])
import kernel_7, torch
problem = Problem(level=1, problem_id=1, name="", source=sys.argv[4])
others = [each.sized_source for each in (other_shapes(problem, sys.argv[6]) or ())[1:]]
for each in [problem.source, *others]:
    no_data.call(kernel_7.ModelNew, each, getattr(torch, sys.argv[5]))
print("compiled", len(compiled), "for", 1 + len(others))
"""


def compiled_anew(built: Built, source: str, problem: str, precision: str, tmp_path: Path) -> str:
    """What a kernel's process compiles itself, of all it is called on, where it begins with a build."""
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "kernel_7.py").write_text(source, "utf-8")
    arguments = [str(built.cache), str(tmp_path / "triton"), str(tmp_path), problem, precision]
    arguments += [job(source).kernel_sha256]
    done = subprocess.run(
        [sys.executable, "-c", AS_CANDIDATE, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    return done.stdout.strip()


def test_a_kernels_process_finds_what_was_compiled_ahead(builder: Builder, tmp_path: Path) -> None:
    source = kernel(known=": tl.constexpr")  # compiled for each size, so that the drawn one tells
    built = build(builder, source)
    assert (built.status, len(cubins(built))) == (BuildStatus.BUILT, 2)
    assert compiled_anew(built, source, PROBLEM.source, "float32", tmp_path) == "compiled 0 for 2"


def test_a_kernel_that_takes_its_size_as_an_argument_is_compiled_for_odd_ones_too(
    builder: Builder, tmp_path: Path
) -> None:
    built, odd = build(builder, kernel()), PROBLEM.source.replace("4096", "777")
    assert len(cubins(built)) == 2
    assert compiled_anew(built, kernel(), odd, "float32", tmp_path) == "compiled 0 for 2"


def test_another_precision_is_compiled_anew(builder: Builder, tmp_path: Path) -> None:
    built = build(builder, kernel())
    assert compiled_anew(built, kernel(), PROBLEM.source, "bfloat16", tmp_path) == "compiled 2 for 2"


def test_a_kernel_that_asks_how_many_multiprocessors_there_are_is_compiled(builder: Builder) -> None:
    asks = "assert torch.cuda.get_device_properties(x.device).multi_processor_count == 132"
    assert len(cubins(build(builder, kernel(first=asks)))) == 2


def test_every_variant_that_may_be_chosen_is_compiled(builder: Builder) -> None:
    assert len(cubins(build(builder, kernel(tuned=True)))) == 4


@pytest.mark.parametrize(
    "source",
    [kernel(operator="@"), kernel(first="assert x.sum().item() > 0"), kernel(first="os._exit(3)")],
    ids=["it does not compile", "it reads its inputs", "it dies"],
)
def test_what_cannot_be_compiled_ahead_is_judged_on_a_gpu(builder: Builder, source: str) -> None:
    assert build(builder, source).status is BuildStatus.UNKNOWN


def test_something_odd_among_tritons_files_costs_them_and_not_the_kernel(builder: Builder) -> None:
    odd = "(Path(os.environ['TRITON_CACHE_DIR']) / 'odd').mkdir(parents=True, exist_ok=True)"
    built = build(builder, kernel(first=odd))
    assert (built.status, cubins(built)) == (BuildStatus.BUILT, [])


def test_what_takes_too_long_is_no_failure_of_the_kernels(tmp_path: Path) -> None:
    with Builder(cache_root=tmp_path, workers=1, arch="9.0a", timeout_s=5) as builder:
        assert build(builder, kernel(first="import time; time.sleep(100)")).status is BuildStatus.UNKNOWN


def test_nothing_is_compiled_ahead_for_a_gpu_that_nobody_knows(tmp_path: Path) -> None:
    with Builder(cache_root=tmp_path, workers=1, arch="") as builder:
        assert build(builder, kernel()).status is BuildStatus.NOT_NEEDED


def test_what_torchs_compiler_tunes_is_left_to_it(builder: Builder) -> None:
    source = kernel() + "\ncompiled = torch.compile(ModelNew)\n"
    assert build(builder, source).status is BuildStatus.NOT_NEEDED
    assert builder.submit(job("import torch\n")).result().status is BuildStatus.NOT_NEEDED


def test_a_build_travels_to_another_machine(builder: Builder, tmp_path: Path) -> None:
    built = build(builder, kernel())
    assert built.cache is not None
    name = built.cache.name
    unpack(read_builds(json.dumps({name: pack(built.cache)})), tmp_path)
    there = replace(built, cache=tmp_path / name)
    assert [path.read_bytes() for path in cubins(there)] == [path.read_bytes() for path in cubins(built)]
    assert compiled_anew(there, kernel(), PROBLEM.source, "float32", tmp_path) == "compiled 0 for 2"


def test_the_candidate_begins_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On a CPU it launches nothing, so its forward looks for the files. They are there: on a busy machine who
    judges does not wait for what builds.
    """
    monkeypatch.setattr(builder_module, "local_arch", lambda: "9.0a")
    monkeypatch.setenv("KERNELBENCH_CACHE", str(tmp_path))
    looks = (
        "if not x.is_cuda: "
        "found = sorted(Path(os.environ['TRITON_CACHE_DIR']).glob('*/*')); "
        "assert sum(each.suffix == '.cubin' for each in found) == 2, found; "
        "return x + x"
    )
    with Builder(workers=1) as builder:
        build(builder, kernel(first=looks))
    rows = judge([job(kernel(first=looks), PROBLEM)], measure=False)
    assert [(row.status, row.failure) for row in rows.values()] == [(Status.CORRECT, None)]
