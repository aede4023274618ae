"""Measure builds: one CUDA kernel alone, then thirty-two at once, with slim and with full headers.

    PYTHONPATH=KernelBench:. python benchmarks/builds.py --out builds.json

Compiles afresh in a folder of its own; needs nvcc, a CUDA build of PyTorch, and no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cuda_kernels import cuda_kernels
from kernel_evaluator.building.builder import Builder, BuildStatus, Built
from kernel_evaluator.problems.jobs import Job
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import KernelKey
from tabulate import tabulate

ALONE = (1, 19)
GPU_SECONDS_A_KERNEL = 1.5


@dataclass(frozen=True, kw_only=True)
class Series:
    """Builds that ran together; times in seconds, `gpu_idle_share` for a device that takes 1.5 s a kernel."""

    name: str
    workers: int
    builds: int
    built: int
    slim: int
    wall_seconds: float
    first_after_seconds: float
    median_seconds: float
    worst_seconds: float
    cpu_seconds_a_build: float
    gpu_idle_share: float
    failures: dict[str, str]


def main() -> int:
    """Run the series asked for; exit 1 where a kernel did not build."""
    options = _options()
    jobs = _jobs(options.limit)
    alone = [job for job in jobs if (job.key.level, job.key.problem_id) == ALONE]
    series = [
        _measure("one, full headers", alone, options.arch, workers=1, slim=False),
        _measure("one, slim headers", alone, options.arch, workers=1, slim=True),
    ]
    for workers in options.workers:
        series.append(_measure("all, slim headers", jobs, options.arch, workers=workers, slim=True))
    if options.with_full:
        workers = options.workers[-1]
        series.append(_measure("all, full headers", jobs, options.arch, workers=workers, slim=False))
    report = {
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "single_build_seconds": {"full": series[0].median_seconds, "slim": series[1].median_seconds},
        "series": [asdict(each) for each in series],
    }
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    rows = [{name: value for name, value in asdict(each).items() if name != "failures"} for each in series]
    print(tabulate(rows, headers="keys", floatfmt=".2f"))
    failures = {key: log for each in series for key, log in each.failures.items()}
    for key, log in failures.items():
        print(f"\n{key}\n{log}", file=sys.stderr)
    return 1 if failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the report as JSON")
    parser.add_argument("--workers", type=int, nargs="+", default=[12], help="sizes of the pool to try")
    parser.add_argument("--limit", type=int, default=32, help="kernels of the series, at most")
    parser.add_argument("--with-full", action="store_true", help="build all with full headers too (slow)")
    parser.add_argument("--arch", help="TORCH_CUDA_ARCH_LIST; by default that of this machine's GPU")
    return parser.parse_args()


def _jobs(limit: int) -> list[Job]:
    problems = ProblemSet()
    sources = sorted(cuda_kernels().items(), key=lambda item: item[0] != ALONE)
    return [
        Job(key=KernelKey(level, number), source=source, problem=problems.load(level, number))
        for (level, number), source in sources[:limit]
    ]


def _measure(name: str, jobs: Sequence[Job], arch: str | None, *, workers: int, slim: bool) -> Series:
    """Build the jobs in an empty cache."""
    finished: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        with Builder(cache_root=Path(folder), workers=workers, arch=arch, slim_headers=slim) as builder:
            futures = [builder.submit(job) for job in jobs]
            for future in futures:
                future.add_done_callback(lambda _: finished.append(time.monotonic() - started))
            outcomes = [future.result() for future in futures]
        wall = time.monotonic() - started
    seconds = [built.seconds for built in outcomes]
    return Series(
        name=name,
        workers=workers,
        builds=len(jobs),
        built=sum(built.status is BuildStatus.BUILT for built in outcomes),
        slim=sum(built.headers == ("slim",) for built in outcomes),
        wall_seconds=wall,
        first_after_seconds=min(finished),
        median_seconds=statistics.median(seconds),
        worst_seconds=max(seconds),
        cpu_seconds_a_build=statistics.fmean(built.cpu_seconds for built in outcomes),
        gpu_idle_share=idle_share(sorted(finished), GPU_SECONDS_A_KERNEL),
        failures=_failures(jobs, outcomes),
    )


def idle_share(ready_at: Sequence[float], busy_s: float) -> float:
    """Share of the time from the first ready kernel to the last judged one in which a device would wait."""
    at, idle = ready_at[0], 0.0
    for ready in ready_at:
        idle += max(0.0, ready - at)
        at = max(at, ready) + busy_s
    return idle / (at - ready_at[0])


def _failures(jobs: Sequence[Job], outcomes: Sequence[Built]) -> dict[str, str]:
    return {
        str(job.key): f"{built.status}: {built.message}\n{built.log[-2000:]}"
        for job, built in zip(jobs, outcomes, strict=True)
        if built.status is not BuildStatus.BUILT
    }


if __name__ == "__main__":
    sys.exit(main())
