"""A tiny extension, how it is built, and how a candidate finds it: what the tests of building share."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from kernel_evaluator.building.builder import Builder, Built
from kernel_evaluator.problems.jobs import Job
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.walls import sandbox

PROBLEM = Problem(
    level=1,
    problem_id=1,
    name="1_Any",
    source="import torch\ndef get_inputs():\n    return [torch.rand(4)]\ndef get_init_inputs():\n    return []\n",
)
CPP = """#include <Python.h>
static PyObject* answer(PyObject*, PyObject*) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "tiny", nullptr, -1, methods};
#define JOIN(a, b) a##b
#define INIT(name) JOIN(PyInit_, name)
extern "C" PyObject* INIT(TORCH_EXTENSION_NAME)() { return PyModule_Create(&definition); }
"""
HEAD = f"import os, sys, time, torch\nfrom torch.utils.cpp_extension import load, load_inline\nCPP = r'''{CPP}'''\n"
TINY = HEAD + "ext = load_inline(name='tiny', cpp_sources=CPP, no_implicit_headers=True)\n"
CANDIDATE = """
import sys
from pathlib import Path
from kernel_evaluator.building import extensions
extensions.install(Path(sys.argv[1]), Path(sys.argv[2]))
space = {"__name__": "kernel"}
exec(sys.stdin.read(), space)
print("answer", space["ext"].answer())
"""


def job(source: str, problem: Problem = PROBLEM) -> Job:
    return Job(key=KernelKey(1, 1), source=source, problem=problem)


def build(builder: Builder, source: str, problem: Problem = PROBLEM) -> Built:
    """Build a kernel beside whatever else this machine does; the builder's own limit ends it."""
    future = builder.submit(job(source, problem))
    while True:
        with suppress(TimeoutError):
            return future.result(0.2)
        _bring_forward()


def _bring_forward() -> None:
    """Let what this process started run as others do: what stands back waits for minutes on a busy machine."""
    for pid in sandbox.descendants(os.getpid()):
        with suppress(OSError):
            if os.sched_getscheduler(pid) == os.SCHED_IDLE:
                os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
                Path(f"/proc/{pid}/autogroup").write_text("0", "ascii")


def as_candidate(cache: Path | None, source: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run a kernel as a candidate does, where no compiler can be found."""
    return subprocess.run(
        [sys.executable, "-c", CANDIDATE, str(cache), str(tmp_path / "scratch")],
        input=source,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PATH": "/nonexistent", "CXX": "/nonexistent/c++", "TMPDIR": str(tmp_path)},
    )
