"""The corpus of kernels like those that models send, and the benchmark that judges it."""

from __future__ import annotations

import ast
import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.walls import sandbox

from leaderboard.files import submission

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import reality  # noqa: E402
import reality_report  # noqa: E402

KERNELS = reality.corpus()
KINDS = {
    "naive-cuda": 23,
    "triton": 8,
    "fused-cuda": 7,
    "wrong": 7,
    "loops": 3,
    "library": 3,
    "does-not-compile": 3,
    "memory": 2,
    "graphs": 2,
    "hangs": 2,
}
SPINS = "while True: pass"
SPINS_WITH_A_CHILD = f"""
import os
child = os.fork()
if child:
    print(child, flush=True)
else:
    os.setsid()
{SPINS}
"""
"""The child has a session of its own, as what builds beside has."""


def arguments(source: str, class_name: str, method: str) -> tuple[int, int]:
    """How many positional arguments a method of a class must get, and how many it takes."""
    (found,) = (
        node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == class_name
    )
    for node in found.body:
        if isinstance(node, ast.FunctionDef) and node.name == method:
            count = len(node.args.args) - 1
            return count - len(node.args.defaults), count
    return 0, 0


def test_corpus_is_a_valid_submission_of_sixty_kernels_of_the_kinds_that_models_send() -> None:
    packed = {
        "metadata": {"display_name": "Reality"},
        "kernels": {str(kernel.key): kernel.source for kernel in KERNELS},
    }
    parsed = submission.parse(json.dumps(packed).encode(), "reality.json")
    assert len(parsed.kernels) == 60
    assert dict(Counter(kernel.kind for kernel in KERNELS)) == KINDS
    assert {kernel.key.level for kernel in KERNELS} == {1, 2, 3}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: str(kernel.key))
def test_kernel_takes_what_its_problem_gives(kernel: reality.Kernel) -> None:
    problem = ProblemSet().load(kernel.key.level, kernel.key.problem_id)
    for method in ("__init__", "forward"):
        needed, taken = arguments(kernel.source, "ModelNew", method)
        least, most = arguments(problem.source, "Model", method)
        assert needed <= least, method
        assert taken >= most, method


def test_what_uses_cuda_names_what_it_binds() -> None:
    for kernel in KERNELS:
        if "load_inline" not in kernel.source or kernel.kind == "does-not-compile":
            continue
        values = {
            node.targets[0].id: node.value.value
            for node in ast.parse(kernel.source).body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Constant)
        }
        declared = str(values["cpp_source"]).removesuffix(";")
        assert f"{declared} {{" in str(values["cuda_source"]), kernel.key
        assert f'functions=["{declared.split("(")[0].split()[-1]}"]' in kernel.source


def kernel(kind: str, gpu_s: float | None, upstream_gpu_s: float | None) -> dict[str, Any]:
    return {"kind": kind, "gpu_s": gpu_s, "upstream_gpu_s": upstream_gpu_s}


def test_summary_leaves_hangs_aside_and_compares_both_ways_on_the_same_kernels() -> None:
    kernels = [
        kernel("triton", 1.0, 6.0),
        kernel("wrong", 0.5, 3.0),
        kernel("naive-cuda", 3.0, None),
        kernel("hangs", 30.0, 180.0),
        kernel("library", None, 2.0),
    ]
    beside = {str(at): 1.0 + at / 100 for at in range(-2, 3)}
    found = reality_report.summarise(kernels, 9.0, beside)
    assert found == {
        "kernels": 5,
        "mean_gpu_s": 1.5,
        "max_gpu_s": 3.0,
        "wall_s_per_kernel": 3.0,
        "upstream_ratio": 6.0,
        "references_beside_builds": {"median": pytest.approx(0.01), "p95": pytest.approx(0.02)},
    }


def test_summary_of_nothing_says_nothing() -> None:
    found = reality_report.summarise([kernel("triton", None, None)], None, {})
    assert [value for name, value in found.items() if name != "kernels"] == [
        None,
        None,
        None,
        None,
        {"median": None, "p95": None},
    ]


def test_report_takes_figures_from_the_records_of_the_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timing = {"mean": 2.0, "std": 0.0, "min": 2.0, "max": 2.0, "n": 9}
    common = {"kernel_sha256": "a", "problem_sha256": "b", "evaluator_sha256": "c", "environment": "e"}

    def recorded(part: str, rows: list[dict[str, Any]]) -> None:
        folder = tmp_path / part / "H100"
        folder.mkdir(parents=True)
        environment = {"device": "NVIDIA H100", "gpu": "H100"}
        result = {
            "schema_version": 1,
            "entry": "reality",
            "submission_sha256": "d",
            "gpu": "H100",
            "sizes": "full",
            "profile": "ranked",
            "evaluator_version": "0",
            "started_at": "2026-11-24T00:00:00+00:00",
            "finished_at": "2026-11-24T00:00:09+00:00",
            "environments": {"e": environment},
            "rows": [{**common, **row} for row in rows],
        }
        (folder / "reality.json").write_text(json.dumps(result))

    def timed(reference_ms: float) -> dict[str, Any]:
        return {
            "key": "level_1_problem_1_sample_0",
            "status": "correct",
            "gpu_seconds": 2.0,
            "runtime_ms": {"median": 4.0, **timing},
            "reference_ms": {"median": reference_ms, **timing},
            "speedup": 0.5,
            "speedup_ci95": [0.4, 0.6],
            "finished_at": "2026-11-24T00:00:03+00:00",
        }

    broken = {
        "key": "level_2_problem_29_sample_0",
        "status": "compile_error",
        "gpu_seconds": 0.0,
        "cpu_seconds": 50.0,
        "finished_at": "2026-11-24T00:00:07+00:00",
    }
    recorded("warm", [timed(2.0), broken])
    references = [
        {
            "problem": "1/1",
            "key": "level_1_problem_1_sample_0",
            "beside": beside,
            "row": {**common, **timed(reference_ms)},
            "gpu": "H100",
        }
        for beside, reference_ms in ((False, 2.0), (True, 2.1))
    ]
    (tmp_path / "references.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in references))
    midnight = 1795478400.0  # 2026-11-24 in UTC
    runs = [{"part": "warm", "started": midnight + 1, "seconds": 7.0, "ended": True}]
    (tmp_path / "runs.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in runs))
    kept = {"key": "level_1_problem_1_sample_0", "gpu": "H100", "inputs": "device", "gpu_s": 8.0}
    slower = {**kept, "key": "level_2_problem_29_sample_0", "gpu": "H200", "gpu_s": 90.0}
    monkeypatch.setattr(reality_report, "RESULTS", tmp_path / "results")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "upstream-H100.jsonl").write_text(f"{json.dumps(kept)}\n")
    (tmp_path / "upstream.jsonl").write_text(f"{json.dumps(slower)}\n")

    kinds = {"level_1_problem_1_sample_0": "naive-cuda", "level_2_problem_29_sample_0": "does-not-compile"}
    found = reality_report.report(tmp_path, kinds)
    path = reality_report.write(found, tmp_path / "report.json")
    assert json.loads(path.read_text())["summary"] == {
        "kernels": 2,
        "mean_gpu_s": 1.0,
        "max_gpu_s": 2.0,
        "wall_s_per_kernel": 3.0,
        "upstream_ratio": 4.0,
        "references_beside_builds": {"median": pytest.approx(0.05), "p95": pytest.approx(0.05)},
    }
    assert [each["warm_wall_s"] for each in found["rows"]] == [2.0, 4.0]
    assert found["second_wall_s_per_kernel"] == 0.5
    assert (found["upstream_kernels"], found["upstream_ratio_at_least"]) == (1, 4.0)
    assert (found["gpu"], found["evaluators"]) == ("H100", ["c"])
    assert found["speedups"]["values"] == [0.5] * 6


def run(work: Path, *more: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "reality.py"),
        "--device",
        "cpu",
        "--work",
        str(work),
    ]
    command += ["--only", "2/71", "--calls", "1", *more]
    environment = {**os.environ, **variables}
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=280, env=environment)


def test_what_needs_no_gpu_runs_on_a_cpu_and_continues_where_it_was_stopped(tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    parts = ("--parts", "cold,upstream,report", "--out", str(out))
    stopped = run(tmp_path, *parts, "--limit-s", "0")
    assert stopped.returncode == 1
    assert stopped.stdout.endswith("left: cold, upstream\n")
    done = run(tmp_path, *parts)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())["rows"]
    assert (row["status"], row["upstream_status"]) == ("mismatch", "mismatch")
    assert row["cold_gpu_s"] > 0
    assert row["upstream_gpu_s"] > 0
    before = (tmp_path / "runs.jsonl").read_text(), (tmp_path / "upstream.jsonl").read_text()
    again = run(tmp_path, *parts)
    assert again.returncode == 0
    assert ((tmp_path / "runs.jsonl").read_text(), (tmp_path / "upstream.jsonl").read_text()) == before


def comes_true(condition: Callable[[], bool]) -> bool:
    """Wait until a condition holds; False where it never does."""
    give_up = time.monotonic() + 60
    while not (holds := condition()) and time.monotonic() < give_up:
        time.sleep(0.05)
    return holds


def started_with(variable: str) -> set[str]:
    """The processes of this machine that were started with such a variable."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.add(folder.name)
    return found


def test_references_are_judged_with_and_without_builds_beside_and_only_once(tmp_path: Path) -> None:
    work, out, temporary = tmp_path / "work", tmp_path / "report.json", tmp_path / "temporary"
    temporary.mkdir()
    asked = ("--parts", "references,report", "--references", "1/19,3/1", "--out", str(out))
    done = run(work, *asked, TMPDIR=str(temporary))
    assert done.returncode == 0, done.stderr
    assert comes_true(lambda: not started_with(f"TMPDIR={temporary}"))
    assert list(temporary.iterdir()) == []

    written = (work / "references.jsonl").read_text()
    lines = [json.loads(line) for line in written.splitlines()]
    assert [(line["problem"], line["beside"]) for line in lines] == [
        ("1/19", False),
        ("1/19", True),
        ("3/1", True),
        ("3/1", False),
    ]
    found = json.loads(out.read_text())
    keys = ["level_1_problem_19_sample_0", "level_3_problem_1_sample_0"]
    assert [each["key"] for each in found["references"]] == keys
    assert all(each["ratio"] > 0 for each in found["references"])
    assert found["gpu"] == "CPU"

    again = run(work, *asked, TMPDIR=str(temporary))
    assert again.returncode == 0, again.stderr
    assert (work / "references.jsonl").read_text() == written


@contextmanager
def running(source: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs this; at the end it is killed with all it started."""
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            sandbox.kill_all(sandbox.descendants(process.pid))


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_what_is_stopped_uses_no_processor_with_all_it_started_and_goes_on_afterwards() -> None:
    def works_on(pid: int) -> bool:
        before = sandbox.processor_seconds([pid])
        return comes_true(lambda: sandbox.processor_seconds([pid]) > before + 0.05)

    with running(SPINS_WITH_A_CHILD) as parent, running(SPINS) as bystander:
        assert parent.stdout is not None
        family = [parent.pid, int(parent.stdout.readline())]
        with reality._stopped(parent.pid):
            assert comes_true(lambda: all(map(is_stopped, family)))
            before = [sandbox.processor_seconds([pid]) for pid in family]
            assert works_on(bystander.pid)
            assert [sandbox.processor_seconds([pid]) for pid in family] == before
        assert all(map(works_on, family))


def test_a_part_whose_command_cannot_start_is_left(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "typer.py").write_text("raise ImportError('a package is missing')\n")
    found = run(tmp_path / "work", "--parts", "cold", PYTHONPATH=str(broken))
    assert (found.returncode, found.stdout.splitlines()[-1]) == (1, "left: cold")
    assert "a package is missing" in (tmp_path / "work" / "cold.log").read_text()


def test_the_way_upstream_judges_says_nothing_of_what_cannot_be_built_before_it_is_asked(
    tmp_path: Path,
) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("raise SyntaxError('no semicolon')\n")
    problem = tmp_path / "problem.py"
    problem.write_text(ProblemSet().load(1, 19).source)
    command = [sys.executable, str(ROOT / "benchmarks" / "upstream_way.py"), str(kernel), str(problem)]
    command += ["--device", "cpu", "--builds", str(tmp_path)]
    with subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert not select.select([process.stdout], [], [], 1.0)[0]
        said, _ = process.communicate(b"go\n")
    assert json.loads(said) == {"status": "compile_error", "error": "SyntaxError: no semicolon"}
