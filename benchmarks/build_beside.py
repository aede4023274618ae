"""Compile the CUDA kernels of the corpus of reality afresh, twelve at a time, until killed.

    python benchmarks/build_beside.py FOLDER build/reality/built.jsonl

Builds in the folder, prints `building` once the builds run, and adds a line to the file for each that ended.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from concurrent.futures import as_completed
from pathlib import Path

from reality import corpus

BUILDERS = 12


def main(folder: Path, record: Path) -> None:
    """Build for ever; a comment at each source's end keeps it out of the cache."""
    from kernel_evaluator.building.builder import Builder
    from kernel_evaluator.problems.jobs import Job
    from kernel_evaluator.problems.problem_set import ProblemSet

    problems = ProblemSet()
    kernels = [k for k in corpus() if "load_inline" in k.source and k.kind != "does-not-compile"]
    with Builder(cache_root=folder, workers=BUILDERS) as builder:
        for turn in itertools.count():
            jobs = [
                Job(
                    key=kernel.key,
                    source=f"{kernel.source}\n# {turn}\n",
                    problem=problems.load(kernel.key.level, kernel.key.problem_id),
                )
                for kernel in kernels
            ]
            futures = [builder.submit(job) for job in jobs]
            if turn == 0:
                time.sleep(5)
                print("building", flush=True)
            for future in as_completed(futures):
                built = future.result()
                line = {"status": built.status.value, "cpu_seconds": built.cpu_seconds}
                with record.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
