"""What a verdict's seconds go into: the stages of judging an entry's kernels, from the evaluator's log.

    python benchmarks/stages.py [--entry pytorch-eager] [--device cuda] [--only 1/19,2/40] [--out stages.json]

Judges a tenth of a submission's problems anew, and prints the mean seconds of each stage by level,
of first evaluations alone. `calls` is what timed batches took by both sides' own clocks, a part of `timing`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "KernelBench"), str(ROOT)]

from gpu import KBL, PROBLEMS, gpu_here  # noqa: E402
from kernel_evaluator.records.version import evaluator_sha256  # noqa: E402
from tabulate import tabulate  # noqa: E402

from leaderboard.files.store import write_atomically  # noqa: E402

A_TENTH = ",".join(PROBLEMS[2::10])
_STAGE = re.compile(r"(level_(\d)_problem_\d+_sample_0) ([a-z]+)(?:,.*)? (\d+\.\d+) s(?:,|$)")
_BATCH = re.compile(r"(?:reference|candidate), \d+ calls: (\d+\.\d+) ms by its clock")


def means(log: str) -> dict[str, dict[str, float]]:
    """Mean seconds of each stage by level, and `kernels`, how many were judged, of a log's text."""
    spent: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    kernels: dict[str, set[str]] = defaultdict(set)
    calls_ms, is_first = 0.0, False
    for line in log.splitlines():
        if batch := _BATCH.search(line):
            calls_ms += float(batch[1])
        elif found := _STAGE.search(line):
            key, level, stage = found[1], f"level {found[2]}", found[3]
            if stage == "stand":
                is_first, calls_ms = key not in kernels[level], 0.0
                kernels[level].add(key)
            if is_first:
                spent[level][stage] += float(found[4])
                spent[level]["calls"] += calls_ms / 1e3 if stage == "timing" else 0.0
    return {
        level: {
            "kernels": len(kernels[level]),
            **{name: round(seconds / len(kernels[level]), 4) for name, seconds in stages.items()},
        }
        for level, stages in sorted(spent.items())
    }


def judge(entry: str, device: str, only: str) -> str:
    """Judge an entry's kernels once, nothing known of them; give the log."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*KBL, "evaluate", f"submissions/{entry}.json", "--device", device, "--only", only]
        command += ["--work", f"{folder}/work", "--data", f"{folder}/none"]
        environment = {**os.environ, "KERNELBENCH_LOG": "DEBUG"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"error: kbl evaluate ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stderr


def main() -> None:
    """Print the table, and keep it if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entry", default="pytorch-eager", help="of submissions/")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--only", default=A_TENTH, help="problems separated by commas")
    parser.add_argument("--out", type=Path, help="where to keep it as JSON")
    options = parser.parse_args()
    found = means(judge(options.entry, options.device, options.only))
    names = list(dict.fromkeys(name for stages in found.values() for name in stages))
    print(
        tabulate([[level, *(stages.get(n) for n in names)] for level, stages in found.items()], ["", *names])
    )
    if options.out:
        gpu = gpu_here() if options.device == "cuda" else "CPU"
        said: dict[str, Any] = {"gpu": gpu, "evaluator_sha256": evaluator_sha256(), "mean_seconds": found}
        write_atomically(options.out, json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
