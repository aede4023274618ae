"""The board as two tables: what was published of every kernel, with its code, and of every entry."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kernel_evaluator.records.rows import ResultFile, Row

from leaderboard.files.submission import Submission
from leaderboard.stages.aggregate import counted, unranked_in
from leaderboard.stages.boards import read_certificates, read_merged, read_ranked

Line = dict[str, Any]


def read_release(data: Path, submissions: Path) -> tuple[list[Line], list[Line]]:
    """Read what the boards show: rows of kernels, rows of entries. Raises StoreError for a broken file."""
    merged, known = read_merged(data, submissions)
    shown = [counted(result, known[result.entry]) for result in merged if result.entry in known]
    proven, certificates = read_ranked(), read_certificates()
    kernels = [
        line
        for result in shown
        for line in _kernels(
            result, known[result.entry], proven - set(unranked_in(certificates, result.precision))
        )
    ]
    return kernels, [_entry(result, known[result.entry]) for result in shown]


def _kernels(result: ResultFile, entry: Submission, ranked: Iterable[str]) -> Iterable[Line]:
    for row in result.rows:
        environment = result.environments.get(row.environment)
        yield {
            "entry": result.entry,
            "gpu": result.gpu,
            "precision": result.precision,
            "sizes": result.sizes,
            **_of_row(row, ranked),
            "device": environment.device if environment else "",
            "driver": environment.driver if environment else "",
            "torch": environment.torch if environment else "",
            "isolation": list(environment.isolation) if environment else [],
            "code": entry.kernels[row.key],
        }


def _of_row(row: Row, ranked: Iterable[str]) -> Line:
    low, high = row.speedup_ci95 or (None, None)
    return {
        "level": row.key.level,
        "problem_id": row.key.problem_id,
        "sample": row.key.sample,
        "status": row.status.value,
        "speedup": row.speedup,
        "speedup_low": low,
        "speedup_high": high,
        "runtime_ms": row.runtime_ms.median if row.runtime_ms else None,
        "reference_ms": row.reference_ms.median if row.reference_ms else None,
        "worst_error": row.worst_error,
        "labels": list(row.labels),
        "failure": row.failure.name if row.failure else "",
        "message": row.failure.message if row.failure else "",
        "evidence": json.dumps(row.evidence, default=str) if row.evidence else "",
        "ranked": f"{row.key.level}_{row.key.problem_id}" in ranked,
        "kernel_sha256": row.kernel_sha256,
        "problem_sha256": row.problem_sha256,
        "evaluator_sha256": row.evaluator_sha256,
        "finished_at": row.finished_at,
    }


def _entry(result: ResultFile, entry: Submission) -> Line:
    about: Mapping[str, Any] = entry.metadata
    generation = about.get("generation") or {}
    return {
        "entry": result.entry,
        "gpu": result.gpu,
        "precision": result.precision,
        "display_name": str(about.get("display_name", "")),
        "organization": str(about.get("organization") or ""),
        "model": str(generation.get("model") or ""),
        "license": str(about.get("license") or ""),
        "baseline": bool(about.get("baseline")),
        "kernels": len(entry.kernels),
        "submission_sha256": result.submission_sha256,
        "revision": result.revision,
        "finished_at": result.finished_at,
    }
