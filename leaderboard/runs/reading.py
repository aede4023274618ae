"""Measured kernels in one shape, whoever wrote the file: our result files, or KernelBench's run folders.

Reads files. Scores are the business of `analyze` and `compare`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from kernel_evaluator.baselines import MODES, BaselineFile
from kernel_evaluator.machine.figures import gpu_model
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Row
from kernel_evaluator.scores import Interval, published_interval
from kernel_evaluator.upstream.files import (
    EvalResults,
    RunFolder,
    baseline_means,
    is_compiled,
    read_eval_results,
)

from leaderboard.files.store import StoreError, parse_result, read_strictly
from leaderboard.stages.plan import ProblemKey


@dataclass(frozen=True, kw_only=True)
class KernelOutcome:
    """One kernel's outcome. `speedup` is over eager PyTorch measured beside it, where it was."""

    key: KernelKey
    status: str
    compiled: bool
    correct: bool
    runtime_ms: float | None = None
    speedup: float | None = None
    speedup_ci95: Interval | None = None
    problem_sha256: str = ""
    """The digest of the problem that it was held against; empty where nothing says."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Under what was measured, as far as it is said."""

    hardware: str = ""
    """The GPU's model, or CPU; empty where nothing says."""
    sizes: str = ""
    precision: str = "fp32"
    profile: str = ""
    """By whose rules, ranked or compat; empty where nothing says."""
    clock: str = ""
    """KernelBench's name of the clock, where one was chosen; empty where nothing says."""


@dataclass(frozen=True, kw_only=True)
class Measured(Conditions):
    """Every kernel of one run or entry."""

    name: str
    samples: Mapping[KernelKey, KernelOutcome]

    @property
    def levels(self) -> list[int]:
        """The levels that have any kernel."""
        return sorted({key.level for key in self.samples})


@dataclass(frozen=True, kw_only=True)
class Times(Conditions):
    """Milliseconds by problem."""

    ms: Mapping[ProblemKey, float]

    def require_alike(self, told: str, run: str, measured: Conditions) -> None:
        """Raise ValueError where these times are of another GPU, precision or of other sizes than the run."""
        if self.precision != measured.precision:
            raise ValueError(
                f"{told}: times in {self.precision}, but {run} was measured in {measured.precision}"
            )
        if self.hardware and measured.hardware and self.hardware != measured.hardware:
            raise ValueError(
                f"{told}: times of {self.hardware}, but {run} was measured on {measured.hardware}; "
                "kbl baseline measures there"
            )
        if self.sizes and measured.sizes and self.sizes != measured.sizes:
            raise ValueError(f"{told}: times at {self.sizes} sizes, but {run} ran at {measured.sizes} sizes")


def read_measured(path: Path) -> Measured:
    """Read a result file, a run folder, or an `eval_results.json`; raise StoreError for anything else.

    A run folder's level is told by its kernels' names, since `eval_results.json` names problems alone.
    """
    if path.is_dir():
        return _from_run(RunFolder(path=path))
    if path.name == "eval_results.json":
        return _from_run(RunFolder(path=path.parent))
    if not path.is_file():
        raise StoreError(f"{path}: no such file or folder")
    result = parse_result(read_strictly(path), path)
    samples = {row.key: _from_row(row) for row in result.rows}
    return Measured(
        name=result.entry,
        hardware=result.gpu,
        sizes=result.sizes,
        samples=samples,
        precision=result.precision,
        profile=result.profile,
    )


def read_times(text: str, problem_set: ProblemSet) -> Times:
    """Read times from a baseline of ours (`FILE:eager`, `FILE:compiled`) or a timing file.

    They are means, as KernelBench's are, and as what they are held against: a mean over a median would differ
    from 1 where nothing differs. A timing file has one mode, and takes none. Raises StoreError where the file
    is neither.
    """
    name, _, mode = text.rpartition(":") if text.endswith(MODES) else (text, "", "")
    path = Path(name)
    data = read_strictly(path)
    if isinstance(data, dict) and "schema_version" in data:
        return _from_baseline(path, data, mode or MODES[0])
    if not isinstance(data, dict) or not any(str(name).startswith("level") for name in data):
        raise StoreError(f"{path}: not a timing file: no key like level1")
    try:
        return times_in(data, problem_set)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        why = error if isinstance(error, ValueError) else repr(error)
        raise StoreError(f"{path}: not a timing file: {why}") from error


def times_in(data: Mapping[str, Any], problem_set: ProblemSet) -> Times:
    """Take the times out of a timing file of KernelBench's that was read; its errors are as they come."""
    found: dict[ProblemKey, float] = {}
    timed: list[Mapping[str, Any]] = []
    for level in (1, 2, 3, 4):
        names = {i: problem_set.load(level, i).name for i in problem_set.ids(level)}
        found |= {(level, i): mean for i, mean in baseline_means(data, level, names).items()}
        timed += filter(None, data.get(f"level{level}", {}).values())
    for (level, i), mean in found.items():
        if not 0 < mean < math.inf:
            raise ValueError(f"level {level} problem {i}: mean must be positive milliseconds, got {mean!r}")
    hardware = _hardware((stats.get("hardware"), stats.get("device")) for stats in timed)
    return Times(
        ms=found,
        hardware=hardware,
        sizes=_sizes_on(hardware) if hardware else "",
        precision=_precision(timed),
    )


def _from_baseline(path: Path, data: Mapping[str, Any], mode: str) -> Times:
    try:
        baseline = BaselineFile.from_json(data)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"{path}: not a baseline file: {error}") from error
    timed = {name: getattr(modes, mode) for name, modes in baseline.problems.items()}
    keys = {name: (int(name.split("_")[0]), int(name.split("_")[1])) for name in timed}
    found = {keys[name]: timing.mean for name, timing in timed.items() if timing is not None}
    return Times(ms=found, hardware=baseline.gpu, sizes=baseline.sizes, precision=baseline.precision)


def _from_row(row: Row) -> KernelOutcome:
    return KernelOutcome(
        key=row.key,
        status=row.status.value,
        compiled=is_compiled(row),
        correct=row.is_correct,
        runtime_ms=row.runtime_ms.mean if row.runtime_ms and row.is_correct else None,
        speedup=row.speedup if row.is_correct else None,
        speedup_ci95=published_interval(row.speedup_ci95) if row.is_correct else None,
        problem_sha256=row.problem_sha256,
    )


def _from_run(run: RunFolder) -> Measured:
    if not run.eval_results_path.is_file():
        raise StoreError(f"{run.path}: no eval_results.json; evaluate the run first")
    level = _run_level(run)
    try:
        results = read_results(run.eval_results_path)
        samples = [_from_item(level, problem, item) for problem, items in results.items() for item in items]
        conditions = conditions_of(results)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"{run.eval_results_path}: not a results file: {error}") from error
    return Measured(
        name=run.name,
        samples={sample.key: sample for sample in samples},
        hardware=conditions.hardware,
        sizes=conditions.sizes,
        precision=conditions.precision,
        profile=conditions.profile,
        clock=conditions.clock,
    )


def read_results(path: Path) -> EvalResults:
    """Read an `eval_results.json`; its errors are as they come.

    Raises ValueError where a yes or no is another thing: the text "False" would count as a yes. So it does
    where a sample is there twice: nothing says which of its verdicts counts. A null says nothing, as other
    tools write what is unknown.
    """
    try:
        read = read_eval_results(path)
    except AttributeError as error:
        raise ValueError("it must be an object of problems, each with the results of its samples") from error
    results = {problem: [_checked(problem, item) for item in items] for problem, items in read.items()}
    for problem, items in results.items():
        for sample, times in Counter(item.get("sample_id", 0) for item in items).items():
            if times > 1:
                raise ValueError(f"problem {problem} has sample {sample} {times} times; keep one of them")
    return results


def _checked(problem: int, item: Any) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        raise ValueError(f"problem {problem}: a sample's result must be an object, got {item!r:.80}")
    said = {name: value for name, value in item.items() if value is not None}
    for name in ("compiled", "correctness"):
        if (value := said.get(name)) not in (True, False):
            raise ValueError(f"problem {problem}: {name} must be true or false, got {value!r:.80}")
    for name in ("runtime", "ref_runtime"):
        value = said.get(name, -1.0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"problem {problem}: {name} must be a number, got {value!r:.80}")
    return said


def conditions_of(results: EvalResults) -> Conditions:
    """Say under what an `eval_results.json` was measured."""
    items = list(chain.from_iterable(results.values()))
    hardware = _hardware(map(_device, items))
    return Conditions(
        hardware=hardware,
        sizes=_sizes_on(hardware),
        precision=_precision(items),
        profile=_said(items, "profile"),
        clock=_said(items, "timing_method"),
    )


def _precision(items: Iterable[Mapping[str, Any]]) -> str:
    """Name the precision; KernelBench's own files say none."""
    return _said(items, "precision") or "fp32"


def _said(items: Iterable[Mapping[str, Any]], name: str) -> str:
    """Give what our own files say beside each kernel and time; empty where KernelBench's do not."""
    return str(next(filter(None, (item.get(name) for item in items)), ""))


def _from_item(level: int, problem: int, item: Mapping[str, Any]) -> KernelOutcome:
    correct = bool(item["correctness"] and item["compiled"])
    runtime, reference = float(item.get("runtime", -1.0)), float(item.get("ref_runtime", -1.0))
    return KernelOutcome(
        key=KernelKey(level, problem, int(item.get("sample_id", 0))),
        status=str(item.get("status") or ("correct" if correct else "failed")),
        compiled=bool(item["compiled"]),
        correct=correct,
        runtime_ms=runtime if correct and 0 < runtime < math.inf else None,
        speedup=_speedup(item.get("speedup"), reference, runtime) if correct else None,
        speedup_ci95=_interval(item.get("speedup_ci95")) if correct else None,
    )


def _interval(given: Any) -> Interval | None:
    if not given:
        return None
    low, high = map(float, given)
    if not 0 < low <= high:
        raise ValueError(f"speedup_ci95 must be two positive numbers in order, got {given!r}")
    return published_interval((low, high))


def _speedup(measured: Any, reference_ms: float, runtime_ms: float) -> float | None:
    """What was measured in turns; else KernelBench's mean of the reference over the kernel's."""
    if measured is not None:
        speedup = float(measured)
        if not 0 < speedup < math.inf:
            raise ValueError(f"speedup must be a positive number, got {measured!r}; leave it out, or mend it")
        return speedup
    speedup = reference_ms / runtime_ms if runtime_ms > 0 and reference_ms > 0 else math.nan
    return speedup if 0 < speedup < math.inf else None


def _device(item: Mapping[str, Any]) -> tuple[Any, Any]:
    metadata = item.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise ValueError(f"metadata must be an object, got {metadata!r}")
    return metadata.get("hardware"), metadata.get("device")


def _hardware(devices: Iterable[tuple[Any, Any]]) -> str:
    """Name the GPU's model, or CPU, by the first device that has a name or a place; empty where none has."""
    device, place = next(filter(any, devices), ("", ""))
    return "CPU" if place == "cpu" else gpu_model(str(device or ""))


def _sizes_on(hardware: str) -> str:
    """Files of KernelBench's name no sizes: what runs on a CPU runs at reduced ones."""
    return "reduced" if hardware == "CPU" else "full"


def _run_level(run: RunFolder) -> int:
    """KernelBench keeps one level a run; the kernels' names say which."""
    levels = {key.level for key in run.kernel_keys()}
    if len(levels) == 1:
        return levels.pop()
    raise StoreError(
        f"{run.path}: a run folder with results must hold kernels of one level, "
        f"found {' and '.join(map(str, sorted(levels))) or 'none, as level_1_problem_1_sample_0_kernel.py'}"
    )
