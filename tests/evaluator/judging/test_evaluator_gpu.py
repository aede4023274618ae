"""Faults that only a GPU has: each gets its own verdict, and the kernel after it is as fast as the one before."""

import dataclasses

import pytest
from evaluating import PROBLEM, SOURCE, cpu_settings, jobs_of, kernel
from kernel_evaluator.engines.local import LocalEngine

pytestmark = pytest.mark.gpu

LARGE = dataclasses.replace(PROBLEM, overrides={"rows": 1 << 20})
COPY = SOURCE + "\n\nModelNew = Model\n"

STRAY = """
import triton
import triton.language as tl

@triton.jit
def stray(pointer):
    tl.store(pointer + (1 << 40), 1.0)
"""

CASES = {
    "an illegal address": (kernel("stray[(1,)](x)", head=STRAY), "runtime_error"),
    "a device assertion": (kernel("x[torch.full((1,), 1 << 40, device=x.device)]"), "runtime_error"),
    "an endless kernel": (kernel("torch.cuda._sleep(1 << 50)"), "timeout"),
    "an endless kernel that is left running": (
        kernel("torch.cuda._sleep(1 << 50)", head="torch.cuda.synchronize = lambda *_: None"),
        "timeout mismatch",
    ),
    "more memory than there is": (kernel("torch.empty(1 << 42, device=x.device)"), "out_of_memory"),
    "all memory kept": (
        kernel(
            "free, _ = torch.cuda.mem_get_info()",
            "self.kept = torch.empty(max(free - (1 << 26), 1), dtype=torch.uint8, device=x.device)",
        ),
        "correct out_of_memory",
    ),
    "death with work on the device": (kernel("torch.cuda._sleep(1 << 31)", "os._exit(0)"), "runtime_error"),
    "no output on the device": (kernel("return self.right(x).cpu()"), "mismatch"),
}

COMPILED = kernel(
    "AsyncCompile.wait_pool_ready()",
    "product(torch.ones(1024, 1024, device=x.device, dtype=torch.bfloat16))",
    "assert 1 < len(compiled()) == len(set(compiled()))",
    head="""
import json
from pathlib import Path
from torch._inductor.async_compile import AsyncCompile

@torch.compile(mode="max-autotune-no-cudagraphs")
def product(x):
    return x @ x

def compiled():
    found = []
    for path in Path(os.environ["TRITON_CACHE_DIR"]).rglob("triton_mm.json"):
        facts = json.loads(path.read_text())
        found.append((path.with_suffix(".ttir").read_text(), facts["num_warps"], facts["num_stages"]))
    return found
""",
)


@pytest.fixture(scope="module")
def rows():
    sources = [COPY] + [source for bad, _ in CASES.values() for source in (bad, COPY)]
    settings = cpu_settings(device="cuda", sizes="full", timeout_s=6.0, memory_gb=32.0)
    verdicts = LocalEngine(gpus=[0]).run(jobs_of(*sources, problem=LARGE), settings)
    return {verdict.row.key.sample: verdict.row for verdict in verdicts}


@pytest.mark.parametrize("case", CASES)
def test_a_fault_on_the_device_gets_its_own_verdict(rows, case):
    row = rows[1 + 2 * list(CASES).index(case)]
    assert row.status in CASES[case][1].split(), f"{row.status} {row.failure}"


@pytest.mark.parametrize("case", CASES)
def test_the_figures_of_the_kernel_after_it_are_unchanged(rows, case):
    row = rows[2 + 2 * list(CASES).index(case)]
    assert row.status == "correct", row.failure
    assert row.speedup == pytest.approx(1.0, rel=0.03)
    assert row.reference_ms.median == pytest.approx(rows[0].reference_ms.median, rel=0.05)


def test_torchs_compiler_compiles_no_choice_twice():
    settings = cpu_settings(device="cuda", sizes="full", memory_gb=32.0)
    (verdict,) = LocalEngine(gpus=[0]).run(jobs_of(COMPILED, problem=LARGE), settings)
    assert verdict.row.status == "correct", verdict.row.failure
