"""The figures of `benchmarks/reality.py`, from the records of its parts."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from kernel_evaluator.records.rows import Row
from tabulate import tabulate

from leaderboard.files.store import read_result, write_atomically

RESULTS = Path(__file__).resolve().parent / "results"
QUANTILES = (5, 10, 25, 50, 75, 90)
SENT = (0.011, 0.047, 0.18, 0.73, 1.01, 1.46)
"""The speedups of kernels that models sent, at these quantiles."""


def report(folder: Path, kinds: Mapping[str, str]) -> dict[str, Any]:
    """Every figure that the folder's records give; None for those whose part has not run."""
    cold, warm, hangs = (rows_of(folder / part) for part in ("cold", "warm", "hangs"))
    runs = _lines(folder / "runs.jsonl")
    walls = {part: _walls(rows, runs, part) for part, rows in (("cold", cold), ("warm", warm))}
    judged = {**cold, **warm, **hangs}
    gpu = _gpu(folder)
    upstream = {line["key"]: line for line in upstream_lines(folder, gpu)}
    kernels = [
        _kernel(
            key,
            kinds[key],
            judged.get(key),
            cold.get(key),
            upstream.get(key, {}),
            on_cpu=gpu == "CPU",
        )
        | {f"{part}_wall_s": walls[part].get(key) for part in walls}
        for key in kinds
    ]
    times = _lines(folder / "references.jsonl")
    beside = compared(_timed(times, beside=False), _timed(times, beside=True))
    cold_s, _ = _seconds(runs, "cold", cold)
    warm_s, second_s = _seconds(runs, "warm", warm)
    return {
        "gpu": gpu,
        "evaluators": sorted({row.evaluator_sha256 for row in judged.values()}),
        "summary": summarise(kernels, warm_s, beside),
        "statuses": {kind: _statuses(kernels, kind) for kind in sorted(set(kinds.values()))},
        "mean_gpu_s_cold": _mean(each["cold_gpu_s"] for each in kernels if each["kind"] != "hangs"),
        "cold_wall_s_per_kernel": _a_kernel(cold_s, cold),
        "second_wall_s_per_kernel": _a_kernel(second_s, warm),
        "upstream_kernels": len(upstream),
        "upstream_ratio_at_least": _ratio(_judged(kernels)) if upstream else None,
        "upstream_inputs": sorted({line["inputs"] for line in upstream.values()}),
        "speedups": speedups(kernels),
        "references_of_kernels_cold_and_warm": distances(compared(warm, cold)),
        "built_beside": dict(Counter(line["status"] for line in _lines(folder / "built.jsonl"))),
        "references": [{"key": key, "ratio": ratio} for key, ratio in beside.items()],
        "rows": kernels,
    }


def summarise(
    kernels: Sequence[Mapping[str, Any]], warm_seconds: float | None, beside: Mapping[str, float]
) -> dict[str, Any]:
    """The six figures: means and the largest leave out what hangs, and both ways are compared on the same.

    `warm_seconds` is the wall time of the run whose builds came from the cache, second evaluations apart.
    """
    judged = _judged(kernels)
    return {
        "kernels": len(kernels),
        "mean_gpu_s": _mean(each["gpu_s"] for each in judged),
        "max_gpu_s": max((each["gpu_s"] for each in judged), default=None),
        "wall_s_per_kernel": _a_kernel(warm_seconds, judged),
        "upstream_ratio": _ratio([each for each in judged if each["upstream_gpu_s"] is not None]),
        "references_beside_builds": distances(beside),
    }


def _judged(kernels: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [each for each in kernels if each["kind"] != "hangs" and each["gpu_s"] is not None]


def _ratio(kernels: Sequence[Mapping[str, Any]]) -> float | None:
    """KernelBench's seconds for each of ours; less than it is where some kernels lack KernelBench's."""
    ours, theirs = (sum(each[name] or 0.0 for each in kernels) for name in ("gpu_s", "upstream_gpu_s"))
    return theirs / ours if ours else None


def compared(alone: Mapping[str, Row], beside: Mapping[str, Row]) -> dict[str, float]:
    """The reference's time with builds beside as a share of that without, for what both timed."""
    return {
        key: row.reference_ms.median / alone[key].reference_ms.median
        for key, row in beside.items()
        if row.reference_ms and key in alone and alone[key].reference_ms
    }


def distances(ratios: Mapping[str, float]) -> dict[str, float | None]:
    """How far ratios lie from 1: the median, and what 95 % of them are within."""
    apart = [abs(ratio - 1) for ratio in ratios.values()]
    return {
        "median": statistics.median(apart) if apart else None,
        "p95": float(np.quantile(apart, 0.95)) if apart else None,
    }


def speedups(kernels: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Quantiles of the speedups of correct kernels, beside those of kernels that models sent."""
    found = [each["speedup"] for each in kernels if each["status"] == "correct" and each["speedup"]]
    values = [float(np.quantile(found, q / 100)) for q in QUANTILES] if found else None
    return {"quantiles": QUANTILES, "values": values, "sent": SENT}


def table(found: Mapping[str, Any]) -> str:
    """Seconds a kernel by kind, and the summary."""
    lines = []
    for kind in sorted({each["kind"] for each in found["rows"]}):
        of_kind = [each for each in found["rows"] if each["kind"] == kind]
        columns = ("gpu_s", "upstream_gpu_s", "cold_wall_s", "warm_wall_s")
        gpu_s, *others = ([e[name] for e in of_kind if e[name] is not None] for name in columns)
        correct = sum(each["status"] == "correct" for each in of_kind)
        lines.append(
            [kind, len(of_kind), correct, _mean(gpu_s), max(gpu_s, default=None), *map(_mean, others)]
        )
    headers = ["kind", "kernels", "correct", "GPU s", "worst", "upstream", "wall cold", "wall warm"]
    summary = json.dumps(found["summary"], indent=1)
    return f"{tabulate(lines, headers=headers, floatfmt='.2f')}\n{summary}"


def write(found: Mapping[str, Any], path: Path | None) -> Path:
    """Write the report, one row a line; give its path."""
    path = path or RESULTS / f"reality-{found['gpu']}.json"
    head = {name: value for name, value in found.items() if name not in ("rows", "references")}
    parts = [json.dumps(head, indent=1)[:-2]]
    for name in ("references", "rows"):
        lines = ",\n".join(f"  {json.dumps(line)}" for line in found[name])
        parts.append(f' "{name}": [\n{lines}\n ]')
    write_atomically(path, ",\n".join(parts) + "\n}\n")
    return path


def _kernel(
    key: str, kind: str, row: Row | None, cold: Row | None, upstream: Mapping[str, Any], *, on_cpu: bool
) -> dict[str, Any]:
    return {
        "key": key,
        "kind": kind,
        "status": row.status.value if row else None,
        "gpu_s": _seconds_of(row, on_cpu=on_cpu),
        "cold_gpu_s": _seconds_of(cold, on_cpu=on_cpu),
        "speedup": row.speedup if row else None,
        "speedup_ci95": row.speedup_ci95 if row else None,
        "runtime_ms": row.runtime_ms.median if row and row.runtime_ms else None,
        "peak_memory_gb": row.peak_memory_gb if row else None,
        "failure": row.failure.name if row and row.failure else None,
        "upstream_status": upstream.get("status"),
        "upstream_gpu_s": upstream.get("gpu_s"),
        "upstream_runtime_ms": upstream.get("runtime_ms"),
        "upstream_reference_ms": upstream.get("reference_ms"),
    }


def _seconds_of(row: Row | None, *, on_cpu: bool) -> float | None:
    """Seconds that the device was held; those of a CPU count the build too."""
    if row is None:
        return None
    return row.cpu_seconds if on_cpu else row.gpu_seconds


def _walls(rows: Mapping[str, Row], runs: Sequence[Mapping[str, Any]], part: str) -> dict[str, float]:
    """Seconds from the verdict before, or from the run's start, to that of each kernel."""
    starts = [run["started"] for run in runs if run["part"] == part]
    ends = sorted((datetime.fromisoformat(row.finished_at).timestamp(), key) for key, row in rows.items())
    walls, before = {}, 0.0
    for end, key in ends:
        begun = max([before, *(start for start in starts if start <= end)])
        walls[key] = end - begun if begun else 0.0
        before = end
    return walls


def _timed(lines: Iterable[Mapping[str, Any]], *, beside: bool) -> dict[str, Row]:
    """The rows of references that were judged with builds beside, or without."""
    return {line["key"]: Row.from_json(line["row"]) for line in lines if line["beside"] is beside}


def rows_of(folder: Path) -> dict[str, Row]:
    """The rows that `kbl evaluate` left in the folder of a part, by the key of their kernel."""
    return {str(row.key): row for path in folder.glob("*/*.json") for row in read_result(path).rows}


def upstream_lines(folder: Path, gpu: str) -> list[dict[str, Any]]:
    """What KernelBench's way said on a model of GPU: the lines kept in `results/`, and the folder's."""
    lines = _lines(RESULTS / f"upstream-{gpu}.jsonl") + _lines(folder / "upstream.jsonl")
    return [line for line in lines if line["gpu"] == gpu]


def _gpu(folder: Path) -> str:
    paths = [path for part in ("warm", "cold", "hangs") for path in folder.glob(f"{part}/*/*.json")]
    said = [read_result(path).gpu for path in paths[:1]]
    others = [line for name in ("references", "upstream") for line in _lines(folder / f"{name}.jsonl")]
    return (said or [line["gpu"] for line in others] or ["unknown"])[0]


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def _seconds(
    runs: Iterable[Mapping[str, Any]], part: str, rows: Mapping[str, Row]
) -> tuple[float | None, float | None]:
    """Wall time of a part over all its runs, until the last first verdict and after it.

    Second evaluations come when each kernel has been judged once. None until the part has come to its end.
    """
    mine = [run for run in runs if run["part"] == part]
    if not any(run["ended"] for run in mine):
        return None, None
    last = max((datetime.fromisoformat(row.finished_at).timestamp() for row in rows.values()), default=0.0)
    first = sum(min(run["seconds"], max(last - run["started"], 0.0)) for run in mine)
    return first, sum(run["seconds"] for run in mine) - first


def _statuses(kernels: Iterable[Mapping[str, Any]], kind: str) -> dict[str, int]:
    return dict(Counter(str(each["status"]) for each in kernels if each["kind"] == kind))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _a_kernel(seconds: float | None, kernels: Any) -> float | None:
    return seconds / len(kernels) if seconds and kernels else None
