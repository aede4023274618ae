import pytest
from kernel_evaluator.labels.sources import Backend, recognise

INLINE = "from torch.utils.cpp_extension import load_inline\next = load_inline(name='a', cpp_sources='')\n"


@pytest.mark.parametrize(
    ("source", "backends"),
    [
        (INLINE, [Backend.LOAD_INLINE]),
        ("import torch.utils.cpp_extension as c\nc.load(name='a', sources=['a.cu'])", [Backend.LOAD]),
        ("import torch.utils.cpp_extension\ntorch.utils.cpp_extension.load('a', [])", [Backend.LOAD]),
        ("from torch.utils import cpp_extension as x\nx.load_inline('a', '')", [Backend.LOAD_INLINE]),
        ("import triton\nimport triton.language as tl", [Backend.TRITON]),
        ("import cutlass.cute as cute", [Backend.CUTE]),
        (INLINE + "s = '#include <cutlass/array.h>'", [Backend.LOAD_INLINE, Backend.CUTLASS]),
        ("import tilelang\nimport tilelang.language as T", [Backend.TILELANG]),
        (INLINE + "s = '#include \"kittens.cuh\"'", [Backend.LOAD_INLINE, Backend.THUNDERKITTENS]),
        ("import os\nos.environ['CXX'] = 'hipcc'\n" + INLINE, [Backend.LOAD_INLINE, Backend.HIP]),
        ("from triton.experimental import gluon", [Backend.TRITON, Backend.GLUON]),
        ("import helion\nimport helion.language as hl", [Backend.HELION]),
        ("import cuda.tile as ct", [Backend.CUTILE]),
        ("import cuda.bindings.driver as cuda", [Backend.TORCH]),
        ("import tvm_ffi.cpp", [Backend.TVM_FFI]),
        (INLINE + "s = '#include <cublasdx.hpp>'", [Backend.LOAD_INLINE, Backend.MATHDX]),
        ("import cupy\nk = cupy.RawKernel('', 'k')", [Backend.NVRTC]),
        ("import torch\nx = torch.relu", [Backend.TORCH]),
        ("import json\njson.load(open('x'))", [Backend.TORCH]),
        ("def broken(:\n    load_inline()", [Backend.LOAD_INLINE]),
    ],
)
def test_a_source_shows_what_it_uses(source: str, backends: list[Backend]) -> None:
    assert backends == list(recognise(source).backends)


def test_only_sources_that_can_compile_are_built() -> None:
    assert recognise(INLINE).needs_build
    assert not recognise("import triton").needs_build
    assert recognise("import importlib\nimportlib.import_module('torch.utils.cpp_extension')").needs_build


def test_a_build_inside_a_function_is_late() -> None:
    body = "from torch.utils.cpp_extension import load_inline\nclass ModelNew:\n    def __init__(self):\n"
    assert recognise(body + "        self.ext = load_inline('a', '')").builds_late
    assert not recognise(INLINE).builds_late
    assert not recognise("import triton\ndef f():\n    triton.jit").builds_late


def test_a_source_nested_too_deeply_is_told_by_its_words() -> None:
    deep = "import triton\nx = " + " + ".join(["y"] * 600) + "\n"
    assert recognise(deep).backends == (Backend.TRITON,)
    assert not recognise(deep).is_built_ahead


def test_a_hostile_source_is_read_without_an_error() -> None:
    assert recognise("x = " + "(" * 5000 + ")" * 5000).backends == (Backend.TORCH,)
    assert recognise("\0").backends == (Backend.TORCH,)
