"""Judge every reference against itself behind the walls, on a CPU, and measure what the walls cost a start.

    python benchmarks/references.py --work build/references --write

The kernels are those of the entry `pytorch-eager`, at reduced sizes. Where a model keeps sizes of its own,
its kernel is the reference at its reduced size. What is judged is kept in WORK, and not judged again.

A start is what a forked process needs until it could load a kernel: behind the former walls (temporary
folders are covered, no root of its own, no list of calls), and behind all walls, in turns. Milliseconds, as
the process says itself: first quartile, median, third.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "KernelBench"), str(ROOT)]

from copies import as_kernel  # noqa: E402
from kernel_evaluator.problems.problem_set import ProblemSet, read_sizes  # noqa: E402
from kernel_evaluator.walls import root, sandbox, syscalls  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "references-CPU.json"
SIZED = ((3, 33),)
"""Its model keeps the hidden state of a whole batch."""

STARTS = 50


def write_entry(path: Path) -> None:
    """Write the entry that is judged."""
    entry = json.loads((ROOT / "submissions/pytorch-eager.json").read_text("utf-8"))
    for level, problem_id in SIZED:
        problem = ProblemSet().load(level, problem_id).reduced(read_sizes())
        entry["kernels"][f"level_{level}_problem_{problem_id}_sample_0"] = as_kernel(problem.sized_source)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(entry), "utf-8")


def judge(work: Path) -> dict[str, Any]:
    """Judge what is not judged yet; count the verdicts."""
    entry = work / "references.json"
    write_entry(entry)
    command = [sys.executable, "-m", "leaderboard", "evaluate", str(entry), "--device", "cpu"]
    command += ["--work", str(work), "--data", str(work / "none")]
    subprocess.run(command, check=False)
    found = json.loads((work / "CPU-reduced/references.json").read_text("utf-8"))
    rows = found["rows"]
    return {
        "judged": len(rows),
        "statuses": dict(Counter(row["status"] for row in rows)),
        "others": {row["key"]: row["failure"]["name"] for row in rows if row["status"] != "correct"},
        "evaluators": dict(Counter(row["evaluator_sha256"] for row in rows)),
        "isolation": sorted({" ".join(each["isolation"]) for each in found["environments"].values()}),
        "finished_at": found["finished_at"],
    }


def former_walls(cell: sandbox.Cell) -> None:
    """Raise the walls as they were: temporary folders are covered, and no call is listed."""
    with mock.patch.object(root, "enter", return_value=False), mock.patch.object(syscalls, "refuse"):
        sandbox.confine(cell)


def start_ms(confine: Callable[[sandbox.Cell], object]) -> float:
    """How long a forked process takes until it could run a kernel, as it says itself."""
    read_end, write_end = os.pipe()
    cell = sandbox.Cell(uid=sandbox.FIRST_UID, readable=[Path(sys.prefix), Path(sys.base_prefix), ROOT])
    keeper = os.fork()
    if keeper == 0:
        sandbox.enter_pid_namespace()
        if os.fork() == 0:
            started = time.perf_counter()
            confine(cell)
            os.write(write_end, repr((time.perf_counter() - started) * 1e3).encode())
            os._exit(0)
        os.wait()
        os._exit(0)
    os.close(write_end)
    os.waitpid(keeper, 0)
    with os.fdopen(read_end) as said:
        return float(said.read())


def starts() -> dict[str, Any]:
    """Medians and quartiles, the kinds in turns."""
    kinds = {"former walls": former_walls, "all walls": sandbox.confine}
    found: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(STARTS):
        for name, confine in kinds.items():
            found[name].append(start_ms(confine))
    return {name: [round(each, 2) for each in statistics.quantiles(ms)] for name, ms in found.items()}


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "references")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    chosen = parser.parse_args()
    report = {"schema_version": 1, **judge(chosen.work), "start_ms_quartiles": starts()}
    print(json.dumps(report, indent=1))
    if chosen.write:
        RESULTS.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    return 0 if report["statuses"] == {"correct": report["judged"]} else 1


if __name__ == "__main__":
    sys.exit(main())
