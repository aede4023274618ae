"""Measure the evaluator: what a verdict costs, how near to 1 a copy of the reference is, how runs differ.

    python benchmarks/evaluator.py --runs A.json B.json --seconds 363 360 --builds builds.json
    python benchmarks/evaluator.py --run --work build/evaluator --builds builds.json

The first form derives every figure from results of `submissions/pytorch-eager.json` and the report of
`benchmarks/builds.py`; the second makes what is missing of them first, and continues where it was stopped.
Both print a table and write `benchmarks/results/evaluator-<gpu>.json`.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "KernelBench"), str(ROOT)]

from kernel_evaluator.records.rows import ResultFile, Row  # noqa: E402
from kernel_evaluator.scores import intervals_apart  # noqa: E402
from tabulate import tabulate  # noqa: E402

from leaderboard.files.store import read_result, write_atomically  # noqa: E402

ENTRY = ROOT / "submissions" / "pytorch-eager.json"
RESULTS = ROOT / "benchmarks" / "results"
LEAST_CLOCKED_MS = 0.1
"""The two clocks are compared on problems that run at least this long."""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A figure with what it must be: at most, at least, or within a distance of 1."""

    name: str
    rule: str
    limit: float

    def is_met(self, value: float) -> bool:
        """Whether the figure is as it must be."""
        if self.rule == "within":
            return abs(value - 1) <= self.limit
        return value <= self.limit if self.rule == "<=" else value >= self.limit

    def __str__(self) -> str:
        return f"1 +- {self.limit:g}" if self.rule == "within" else f"{self.rule} {self.limit:g}"


GOALS = (
    Goal(name="gpu_seconds_per_kernel", rule="<=", limit=1.5),
    Goal(name="total_seconds", rule="<=", limit=375),
    Goal(name="self_speedup_geomean", rule="within", limit=0.002),
    Goal(name="self_speedup_share_within_1pct", rule=">=", limit=0.95),
    Goal(name="self_speedup_worst", rule="within", limit=0.03),
    Goal(name="clocks_share_within_2pct", rule=">=", limit=0.95),
    Goal(name="rerun_share_within_1pct", rule=">=", limit=0.95),
    Goal(name="build_idle_share", rule="<=", limit=0.2),
    Goal(name="peak_memory_gb", rule="<=", limit=80),
)

WITHOUT_GOAL = (
    "judging_seconds_per_kernel",
    "interval_holds_1_share",
    "rerun_intervals_meet_share",
    "single_build_seconds",
)


def main() -> int:
    """Derive the figures; exit 1 where there is nothing to derive them from."""
    options = _options()
    paths, seconds = options.runs, options.seconds
    if options.run:
        paths, seconds = _run_all(options)
    if not paths:
        print("error: give --runs, or --run to make them", file=sys.stderr)
        return 1
    if len(seconds) > len(paths):
        print("error: --seconds must be one number a run", file=sys.stderr)
        return 1
    runs = [read_result(path) for path in paths]
    if len({row.evaluator_sha256 for run in runs for row in run.rows}) > 1:
        print("warning: the runs were judged by different versions of the evaluator", file=sys.stderr)
    builds = json.loads(options.builds.read_text("utf-8")) if options.builds else {}
    report = figures(runs, seconds, builds)
    path = options.out or RESULTS / f"evaluator-{report['gpu']}.json"
    write_atomically(path, dump(report))
    print(table(report))
    print(f"written to {path}")
    return 0


def figures(
    runs: Sequence[ResultFile], seconds: Sequence[float], builds: Mapping[str, Any]
) -> dict[str, Any]:
    """Every figure of the report. What a run has no time for counts as outside of every share.

    `seconds` are the wall times of the runs. The device is held for all of a run: preparing references,
    starting processes and waiting count with it.
    """
    first = runs[0]
    timed = [row for row in first.rows if row.is_correct and row.speedup is not None]
    clocked = [row for row in timed if row.runtime_ms and row.runtime_ms.median >= LEAST_CLOCKED_MS]
    again = speedups_of(runs[1]) if len(runs) > 1 else {}
    gaps = _gaps(first, runs[1]) if len(runs) > 1 else []
    speedups = [row.speedup or 0.0 for row in timed]
    count = len(first.rows)
    return {
        "gpu": first.board,
        "problems": count,
        "statuses": dict(Counter(row.status.value for row in first.rows)),
        "gpu_seconds_per_kernel": seconds[0] / count if seconds else None,
        "total_seconds": seconds[0] if seconds else None,
        "judging_seconds_per_kernel": sum(_judging_s(row) for row in first.rows) / count,
        "self_speedup_geomean": math.exp(math.fsum(map(math.log, speedups)) / len(timed)) if timed else None,
        "self_speedup_share_within_1pct": within(speedups, 0.01) / count,
        "self_speedup_worst": max(speedups, key=off_by, default=None),
        "interval_holds_1_share": sum(map(_holds_one, timed)) / count,
        "clocks_compared": len(clocked),
        "clocks_share_within_2pct": _share((row.clock_disagreement or 0.0) <= 0.02 for row in clocked),
        "rerun_share_within_1pct": within(_changes(first, again), 0.01) / count if again else None,
        "rerun_worst": max(_changes(first, again), key=lambda c: abs(c - 1), default=None),
        "rerun_intervals_meet_share": _share(gap == 0 for gap in gaps),
        "rerun_intervals_apart_worst": max(gaps, default=None),
        **_build_figures(builds),
        "peak_memory_gb": max((row.peak_memory_gb for row in timed if row.peak_memory_gb), default=None),
        "runs": [_run_facts(run, took) for run, took in zip_longest(runs, seconds)],
        "rows": [_row_facts(row, again.get(str(row.key))) for row in first.rows],
    }


def table(report: Mapping[str, Any]) -> str:
    """The figures that have a goal, beside it, and some that have none."""
    lines = []
    for goal in GOALS:
        value = report[goal.name]
        met = "?" if value is None else "yes" if goal.is_met(value) else "NO"
        lines.append([goal.name, value, str(goal), met])
    lines += [[name, report[name], "", ""] for name in WITHOUT_GOAL]
    head = f"{report['gpu']}: {report['problems']} problems, {report['statuses']}"
    return f"{head}\n{tabulate(lines, headers=['figure', 'value', 'goal', 'met'], floatfmt='.4f')}"


def dump(report: Mapping[str, Any]) -> str:
    """The report as JSON, one row a line."""
    rows = ",\n".join(f"  {json.dumps(row)}" for row in report["rows"])
    head = json.dumps({name: value for name, value in report.items() if name != "rows"}, indent=1)
    return f'{head[:-2]},\n "rows": [\n{rows}\n ]\n}}\n'


def _holds_one(row: Row) -> bool:
    """Whether the interval holds what a copy's speedup is."""
    low, high = row.speedup_ci95 or (0.0, 0.0)
    return low <= 1 <= high


def within(values: Iterable[float], distance: float) -> int:
    """How many speedups are so near to 1."""
    return sum(abs(value - 1) <= distance for value in values)


def off_by(speedup: float) -> float:
    """How far a speedup is from 1, up or down alike."""
    return abs(math.log(speedup))


def _share(hits: Iterable[bool]) -> float | None:
    listed = list(hits)
    return sum(listed) / len(listed) if listed else None


def speedups_of(run: ResultFile) -> dict[str, float]:
    """The speedups of what is correct, by kernel."""
    return {str(row.key): row.speedup for row in run.rows if row.is_correct and row.speedup}


def _changes(run: ResultFile, again: Mapping[str, float]) -> list[float]:
    return [again[key] / speedup for key, speedup in speedups_of(run).items() if key in again]


def _gaps(run: ResultFile, again: ResultFile) -> list[float]:
    """By what share the intervals of two runs lie apart, for each kernel that both timed."""
    others = {row.key: row.speedup_ci95 for row in again.rows}
    pairs = [(row.speedup_ci95, others.get(row.key)) for row in run.rows]
    return [intervals_apart(one, other) for one, other in pairs if one and other]


def _judging_s(row: Row) -> float:
    return row.gpu_seconds or row.cpu_seconds


def _build_figures(builds: Mapping[str, Any]) -> dict[str, Any]:
    """The share that a device would idle while many kernels build with slim headers, and one build alone."""
    many = [each for each in builds.get("series", ()) if each["builds"] > 1 and "slim" in each["name"]]
    best = min(many, key=lambda each: each["wall_seconds"], default=None)
    single = builds.get("single_build_seconds", {})
    return {
        "build_idle_share": best["gpu_idle_share"] if best else None,
        "build_series": best,
        "build_cores": builds.get("cores"),
        "single_build_seconds": single.get("slim"),
        "single_build_seconds_before": single.get("full"),
    }


def _run_facts(run: ResultFile, seconds: float | None) -> dict[str, Any]:
    speedups = list(speedups_of(run).values())
    return {
        "seconds": seconds,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "evaluator_sha256": sorted({row.evaluator_sha256 for row in run.rows}),
        "environments": [asdict(environment) for environment in run.environments.values()],
        "timed": len(speedups),
        "self_speedup_geomean": math.exp(math.fsum(map(math.log, speedups)) / len(speedups))
        if speedups
        else None,
        "self_speedup_share_within_1pct": within(speedups, 0.01) / len(run.rows),
        "self_speedup_worst": max(speedups, key=off_by, default=None),
    }


def _row_facts(row: Row, again: float | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "problem": f"{row.key.level}/{row.key.problem_id}",
        "status": row.status.value,
        "speedup": row.speedup,
        "speedup_ci95": row.speedup_ci95,
        "speedup_again": again,
        "runtime_ms": row.runtime_ms.median if row.runtime_ms else None,
        "reference_ms": row.reference_ms.median if row.reference_ms else None,
        "second_clock_ms": row.second_clock_ms,
        "clock_disagreement": row.clock_disagreement,
        "rounds": row.runtime_ms.n if row.runtime_ms else None,
        "judging_seconds": _judging_s(row),
        "peak_memory_gb": row.peak_memory_gb,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _run_all(options: argparse.Namespace) -> tuple[list[Path], list[float]]:
    """Judge the entry as often as asked, and build; give the results and their wall times."""
    if options.builds and not options.builds.is_file():
        command = [sys.executable, str(ROOT / "benchmarks" / "builds.py"), "--out", str(options.builds)]
        subprocess.run(command, check=True, cwd=ROOT)
    paths, seconds = [], []
    for number in range(1, options.times + 1):
        folder = options.work / f"run{number}"
        path, took = _run_once(folder, options)
        paths.append(path)
        seconds.append(took)
    return paths, seconds


def _run_once(folder: Path, options: argparse.Namespace) -> tuple[Path, float]:
    """One run of the command itself in a process of its own; its time includes the start.

    A run that was interrupted starts anew: its time would say nothing.
    """
    note = folder / "seconds.json"
    if not note.is_file():
        for path in folder.glob("*/*.json"):
            path.unlink()
        command = [sys.executable, "-m", "leaderboard", "evaluate", str(ENTRY), "--work", str(folder)]
        command += ["--data", str(folder / "none"), "--device", options.device]
        command += ["--only", options.only] if options.only else []
        started = time.monotonic()
        subprocess.run(command, check=True, cwd=ROOT)
        write_atomically(note, json.dumps(time.monotonic() - started) + "\n")
    (path,) = folder.glob(f"*/{ENTRY.stem}.json")
    return path, float(json.loads(note.read_text("utf-8")))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, nargs="+", default=[], help="result files of the same entry")
    parser.add_argument("--seconds", type=float, nargs="+", default=[], help="wall time of each run")
    parser.add_argument("--builds", type=Path, help="the report of benchmarks/builds.py; --run makes it")
    parser.add_argument(
        "--out", type=Path, help="the report; by default benchmarks/results/evaluator-GPU.json"
    )
    parser.add_argument("--run", action="store_true", help="make the runs that --work lacks")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "evaluator", help="folder of the runs")
    parser.add_argument("--times", type=int, default=2, help="runs to make")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--only", default="", help="only these problems: 1/19,2/40")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
