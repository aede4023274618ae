"""KernelBench's file formats: run folders, `eval_results.json`, `pass_at_k_results.json`, the analysis file.

Translates between those files and our rows. Judges nothing and keeps every number at full precision; where
the formats leave room, extra keys carry what ours adds (readers of these files look keys up by name).
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Environment, Failure, Row, Status, Timing
from kernel_evaluator.scores import correct_speedups, fast_p, geomean, pass_at_k, rate

EXCESSIVE_SPEEDUP = 10.0
"""Above this ratio KernelBench's files carry `excessive_speedup`."""

_KERNEL_FILE = re.compile(r"(level_\d+_problem_\d+_sample_\d+)_kernel\.py")


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """One run in KernelBench's layout: `runs/<run_name>/level_1_problem_2_sample_0_kernel.py` and so on."""

    path: Path

    @property
    def name(self) -> str:
        """The run's name, for a path like `.` too."""
        return self.path.absolute().name

    @property
    def eval_results_path(self) -> Path:
        """Where the verdicts are."""
        return self.path / "eval_results.json"

    @property
    def pass_at_k_path(self) -> Path:
        """Where pass@k is, for runs of several samples."""
        return self.path / "pass_at_k_results.json"

    @property
    def config_path(self) -> Path:
        """Where the options that generated the run are."""
        return self.path / "generation_config.yaml"

    def kernel_path(self, key: KernelKey) -> Path:
        """Give the path of one kernel."""
        return self.path / f"{key}_kernel.py"

    def prompt_path(self, key: KernelKey) -> Path:
        """Give the path of the prompt that one kernel answers."""
        return self.path / f"{key}_prompt.txt"

    def kernel_keys(self) -> list[KernelKey]:
        """List the kernels present, sorted; files whose name is no kernel key are passed over."""
        if not self.path.is_dir():
            return []
        names = (_KERNEL_FILE.fullmatch(path.name) for path in self.path.iterdir())
        return sorted(key for key in (_parse(match[1]) for match in names if match) if key is not None)

    def sources(self) -> dict[KernelKey, str]:
        """Read every kernel of the run."""
        return {key: self.kernel_path(key).read_bytes().decode("utf-8") for key in self.kernel_keys()}

    def sweep(self) -> None:
        """Remove the halves of files that a killed writer left. Only for who holds the run alone."""
        for path in self.path.glob(".level_*_kernel.py.*"):
            path.unlink(missing_ok=True)

    def write_kernel(self, key: KernelKey, source: str) -> None:
        """Write one kernel; the file is there whole or not at all."""
        write_text(self.kernel_path(key), source)


def _parse(text: str) -> KernelKey | None:
    try:
        return KernelKey.parse(text)
    except ValueError:
        return None


def write_text(path: Path, text: str) -> None:
    """Write a file through a temporary neighbour, so that no reader ever meets half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError as error:
        error.filename = str(path)  # a full disk names no file
        raise
    finally:
        Path(name).unlink(missing_ok=True)


def is_compiled(row: Row) -> bool:
    """Whether the kernel was built and loaded, as far as is known; what KernelBench calls `compiled`."""
    return row.status not in (Status.COMPILE_ERROR, Status.INFRA_ERROR)


def execution_result(row: Row, environment: Environment | None = None) -> dict[str, Any]:
    """Give a row as one item of `eval_results.json`; -1 stands where KernelBench writes -1."""
    machine = machine_of(environment)
    return {
        "sample_id": row.key.sample,
        "compiled": is_compiled(row),
        "correctness": row.is_correct,
        "metadata": {**machine, **_metadata(row)},
        "runtime": row.runtime_ms.mean if row.runtime_ms and row.is_correct else -1.0,
        "runtime_stats": timing_stats(row.runtime_ms, machine) if row.is_correct else {},
        "ref_runtime": row.reference_ms.mean if row.reference_ms and row.is_correct else -1.0,
        "ref_runtime_stats": timing_stats(row.reference_ms, machine) if row.is_correct else {},
        "status": row.status.value,
        "speedup": row.speedup,
        "speedup_ci95": list(row.speedup_ci95) if row.speedup_ci95 else None,
        "labels": list(row.labels),
        "kernel_sha256": row.kernel_sha256,
        "evaluator_sha256": row.evaluator_sha256,
    }


def machine_of(environment: Environment | None) -> dict[str, str]:
    """Say where as KernelBench does: the device's own name, and its place."""
    if environment is None or not environment.device:
        return {}
    return {"hardware": environment.device, "device": "cpu" if environment.gpu == "CPU" else "cuda:0"}


def timing_stats(timing: Timing | None, machine: Mapping[str, str]) -> dict[str, Any]:
    """Give times under KernelBench's names, at full precision and with the median."""
    if timing is None:
        return {}
    values = asdict(timing)
    count = values.pop("n")
    return {**values, "num_trials": count, **machine}


def _metadata(row: Row) -> dict[str, Any]:
    """The keys of KernelBench's metadata that say how the kernel ended."""
    notes: dict[str, Any] = {}
    if row.trials_asked:
        notes["correctness_trials"] = f"({row.trials_passed} / {row.trials_asked})"
    if row.worst_error is not None:
        notes["worst_error_over_tolerance"] = row.worst_error
    if row.speedup is not None and row.speedup > EXCESSIVE_SPEEDUP:
        notes["excessive_speedup"] = True
    return {**notes, **_failure_metadata(row)}


def _failure_metadata(row: Row) -> dict[str, Any]:
    if row.is_correct:
        return {}
    failure = row.failure or Failure(name=row.status.value, message=row.status.value)
    if row.status is Status.TIMEOUT:
        return {"error": "Evaluation timed out", "error_message": failure.message}
    word = _FAILURE_WORDS.get(row.status, "runtime_error")
    values = {word: failure.message, f"{word}_name": failure.name, **_differences(row)}
    return {**values, f"{word}_traceback": failure.log} if word == "runtime_error" else values


def _differences(row: Row) -> dict[str, Any]:
    """What the profile `compat` notes of each failing trial."""
    names = ("max_difference", "avg_difference")
    return {name: row.evidence[name] for name in names if row.evidence and name in row.evidence}


_FAILURE_WORDS = {
    Status.COMPILE_ERROR: "compilation_error",
    Status.MISMATCH: "correctness_issue",
    Status.FRAGILE: "correctness_issue",
    Status.REJECTED: "correctness_issue",
    Status.QUARANTINED: "correctness_issue",
    Status.INFRA_ERROR: "other_error",
}

EvalResults = dict[int, list[dict[str, Any]]]
"""What `eval_results.json` holds: problem id to the results of its samples."""


def read_eval_results(path: Path) -> EvalResults:
    """Read `eval_results.json`, whoever wrote it; an absent file is an empty one.

    KernelBench has also written one object a problem instead of a list; both are read. Raises ValueError or
    AttributeError where it is no such file.
    """
    if not path.exists():
        return {}
    try:
        data: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return {int(key): value if isinstance(value, list) else [value] for key, value in data.items()}


def write_eval_results(path: Path, results: EvalResults) -> None:
    """Write `eval_results.json`: indent 4, problems in numeric order, samples in order."""
    ordered = {
        str(problem): sorted(results[problem], key=lambda item: int(item["sample_id"]))
        for problem in sorted(results)
    }
    write_text(path, json.dumps(ordered, indent=4, default=str) + "\n")


def merge_results(results: EvalResults, rows: Iterable[tuple[Row, Environment | None]]) -> EvalResults:
    """Give the results with these rows in them; a row replaces an earlier result of the same sample."""
    merged = {problem: list(items) for problem, items in results.items()}
    for row, environment in rows:
        items = merged.setdefault(row.key.problem_id, [])
        items[:] = [item for item in items if item["sample_id"] != row.key.sample]
        items.append(execution_result(row, environment))
    return merged


def pass_at_k_results(results: EvalResults, k_values: Sequence[int]) -> dict[str, Any]:
    """Give the content of `pass_at_k_results.json`; k above a problem's sample count is clamped, as there."""
    problems: dict[str, dict[str, Any]] = {}
    sums: dict[int, list[float]] = {}
    for problem in sorted(results):
        items = results[problem]
        correct = sum(bool(item["correctness"] and item["compiled"]) for item in items)
        clamped = {min(k, len(items)) for k in k_values}
        scores = {k: pass_at_k(len(items), correct, k) for k in sorted(clamped) if k > 0}
        problems[str(problem)] = {
            "total_samples": len(items),
            "correct_samples": correct,
            **{f"pass@{k}": score for k, score in scores.items()},
        }
        for k, score in scores.items():
            sums.setdefault(k, []).append(score)
    return {
        "metadata": {
            "total_problems": len(problems),
            "problems_with_samples": sum(item["total_samples"] > 0 for item in problems.values()),
            "total_evaluated_samples": sum(item["total_samples"] for item in problems.values()),
            "total_correct_samples": sum(item["correct_samples"] for item in problems.values()),
            **{f"pass@{k}_count": len(scores) for k, scores in sorted(sums.items())},
        },
        "averages": {f"avg_pass@{k}": sum(scores) / len(problems) for k, scores in sorted(sums.items())},
        "problems": problems,
    }


def write_pass_at_k(path: Path, results: EvalResults, k_values: Sequence[int]) -> None:
    """Write `pass_at_k_results.json`, indent 2."""
    write_text(path, json.dumps(pass_at_k_results(results, k_values), indent=2) + "\n")


ANALYSIS_THRESHOLDS = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)


@dataclass(frozen=True, kw_only=True)
class RunAnalysis:
    """What is compared with what: one level of one run, against one baseline timing file."""

    run_name: str
    level: int
    hardware: str
    problem_count: int
    results: EvalResults
    baseline_ms: Mapping[int, float]
    """Mean time by problem id, of the problems that the baseline has."""

    def to_json(self) -> dict[str, Any]:
        """Give the analysis file: sample 0 only, missing problems as failures, `fast_p` with a strict `>`.

        Rates and `fast_p` are over the level's problems, as in `kbl analyze`; the file names that number.
        """
        first = {problem: _first_sample(items) for problem, items in self.results.items()}
        timed = sorted(self.baseline_ms)
        correct = [bool(first.get(problem, {}).get("correctness")) for problem in timed]
        runtimes = [float(first.get(problem, {}).get("runtime", -1.0)) for problem in timed]
        speedups = correct_speedups(correct, [self.baseline_ms[problem] for problem in timed], runtimes)
        compiled_count = sum(bool(item.get("compiled")) for item in first.values())
        correct_count = sum(bool(item.get("correctness")) for item in first.values())
        return {
            "run_name": self.run_name,
            "level": self.level,
            "hardware": self.hardware,
            "total_count": self.problem_count,
            "total_eval": sum(bool(item) for item in first.values()),
            "compiled_count": compiled_count,
            "correct_count": correct_count,
            "compilation_rate": rate(compiled_count, self.problem_count),
            "correctness_rate": rate(correct_count, self.problem_count),
            "geo_mean_speedup": geomean(speedups) or 0.0,
            "fast_p": {str(p): fast_p(speedups, p, self.problem_count) for p in ANALYSIS_THRESHOLDS},
            "fast_p_denominator": self.problem_count,
        }


def _first_sample(items: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return next((item for item in items if int(item.get("sample_id", 0)) == 0), {})


def baseline_means(timings: Mapping[str, Any], level: int, names: Mapping[int, str]) -> dict[int, float]:
    """Read mean milliseconds by problem id out of the content of a timing file, or of a baseline of ours.

    `names` maps ids to problem names; the file's names count with and without `.py`. Problems that were not
    measured (null or absent) are left out. Of a baseline the times of eager PyTorch count.
    """
    if "schema_version" in timings:
        eager = {name: modes.get("eager") for name, modes in timings["problems"].items()}
        ours = {problem: eager.get(f"{level}_{problem}") for problem in names}
        return {problem: float(stats["mean"]) for problem, stats in ours.items() if stats}
    measured = {
        str(name).removesuffix(".py"): stats for name, stats in timings.get(f"level{level}", {}).items()
    }
    found = {problem: measured.get(name.removesuffix(".py")) for problem, name in names.items()}
    return {problem: float(stats["mean"]) for problem, stats in found.items() if stats}
