"""`benchmark_eval_analysis`: KernelBench's figures for one run, printed and written as its analysis file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kernel_evaluator.baselines import MODES
from kernel_evaluator.machine.figures import gpu_model
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import PROBLEM_COUNTS
from kernel_evaluator.records.places import PROBLEM_SET
from kernel_evaluator.upstream.files import (
    EvalResults,
    RunAnalysis,
    RunFolder,
    write_text,
)

from leaderboard.files.store import StoreError, read_strictly
from leaderboard.runs.reading import Conditions, conditions_of, read_results, read_times
from leaderboard.seed_scripts.runner import run_script
from leaderboard.texts.say import say

MEASURED = "measured"
"""As `baseline`: the reference times measured beside each kernel, instead of a file of other machines."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """KernelBench's options."""

    run_name: str
    level: int
    hardware: str
    baseline: str
    baseline_file: str | None = None
    eval_results_dir: str = "runs"
    output_file: str | None = None


def run(options: Options) -> int:
    """Work the figures out, show them, and write them where asked."""
    folder = RunFolder(path=Path(options.eval_results_dir) / options.run_name)
    if not folder.eval_results_path.is_file():
        raise StoreError(f"{folder.eval_results_path}: missing; run scripts/eval_from_generations.py first")
    _require_level(options.level, folder)
    with _told_of(folder.eval_results_path):
        results = read_results(folder.eval_results_path)
        conditions, measured = conditions_of(results), _measured(results)
    baseline = measured if options.baseline == MEASURED else _from_file(options, conditions)
    with _told_of(folder.eval_results_path):
        analysis = RunAnalysis(
            run_name=options.run_name,
            level=options.level,
            hardware=options.hardware,
            problem_count=PROBLEM_COUNTS[options.level],
            results=results,
            baseline_ms=baseline,
        ).to_json()
    if folder.pass_at_k_path.is_file():
        found = read_strictly(folder.pass_at_k_path)
        with _told_of(folder.pass_at_k_path):
            averages = {name: float(value) for name, value in found["averages"].items()}
            analysis["pass_at_k"] = {"metadata": found["metadata"], "averages": averages}
    say(_table(analysis, len(baseline), conditions.hardware))
    if options.output_file:
        write_text(Path(options.output_file), json.dumps(analysis, indent=2) + "\n")
        say(f"written to {options.output_file}")
    return 0


def _require_level(level: int, folder: RunFolder) -> None:
    """Raise StoreError where there is no such level, or the folder's kernels are of others."""
    if level not in PROBLEM_COUNTS:
        raise StoreError(f"level must be one of {', '.join(map(str, PROBLEM_COUNTS))}, got {level}")
    levels = sorted({key.level for key in folder.kernel_keys()})
    if levels and level not in levels:
        found = " and ".join(map(str, levels))
        raise StoreError(f"{folder.path}: holds kernels of level {found}, not of level {level}; mend level=…")


@contextmanager
def _told_of(path: Path) -> Iterator[None]:
    """Raise StoreError that names the file, where what it holds is not what KernelBench writes there."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else error
        raise StoreError(f"{path}: not a results file: {why}") from error


def _measured(results: EvalResults) -> dict[int, float]:
    """The times beside sample 0, wherever it stands: KernelBench lists samples as they were finished."""
    times = {
        problem: float(item.get("ref_runtime", -1))
        for problem, items in results.items()
        for item in items
        if int(item.get("sample_id", 0)) == 0
    }
    return {problem: time for problem, time in times.items() if time > 0}


def _from_file(options: Options, measured: Conditions) -> dict[int, float]:
    name = options.baseline.removesuffix(".json")
    path = Path(options.baseline_file or f"results/timing/{options.hardware}/{name}.json")
    mode = name if name in MODES else ""
    if not path.is_file():
        raise StoreError(f"{path}: no such timing file; give baseline_file=…, or baseline={MEASURED}")
    times = read_times(f"{path}:{mode}" if mode else str(path), ProblemSet(PROBLEM_SET))
    times.require_alike(str(path), options.run_name, measured)
    found = {problem: ms for (level, problem), ms in times.ms.items() if level == options.level}
    if not found:
        raise StoreError(f"{path}: has no time of level {options.level}")
    return found


def _table(analysis: dict[str, Any], timed: int, judged_on: str) -> str:
    from tabulate import tabulate

    total = analysis["fast_p_denominator"]
    rows = [
        ["compiled", f"{analysis['compiled_count']} of {analysis['total_count']}"],
        ["correct", f"{analysis['correct_count']} of {analysis['total_count']}"],
        ["geomean speedup, correct only", f"{analysis['geo_mean_speedup']:.4f}"],
        *[[f"fast_{p}, of all {total}", f"{share:.4f}"] for p, share in analysis["fast_p"].items()],
        ["with a baseline time", f"{timed} of {total}"],
    ]
    rows += [
        [name, f"{value:.4f}"] for name, value in analysis.get("pass_at_k", {}).get("averages", {}).items()
    ]
    head = f"{analysis['run_name']}, level {analysis['level']}, {analysis['hardware']}"
    if judged_on and judged_on not in gpu_model(analysis["hardware"]):
        head += f" (judged on {judged_on})"
    return f"{head}\n{tabulate(rows, tablefmt='plain')}"


main = partial(run_script, Options, run)
