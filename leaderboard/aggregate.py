"""The stage `aggregate`: rows to standings. Pure: takes records and gives records, reads no file."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from kernelbench import scores
from kernelbench.keys import PROBLEM_COUNTS, RANKED_LEVELS, KernelKey
from kernelbench.rows import ResultFile, Row, Status

from leaderboard.standings import THRESHOLDS, Board, Scores, Standing
from leaderboard.submission import Submission

REFERENCE_GPU = "H100"
"""The GPU model whose board comes first."""

PASS_AT = (1, 5, 10, 20, 50, 100)

_NOT_COMPILED = (Status.COMPILE_ERROR, Status.INFRA_ERROR)


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """One submission with its valid rows, on one board."""

    submission: Submission
    result: ResultFile
    rows: Mapping[KernelKey, Row]


def aggregate(
    results: Iterable[ResultFile], submissions: Mapping[str, Submission], certificates: Mapping[str, str]
) -> tuple[Board, ...]:
    """Make the boards: one a GPU model and size class, the reference GPU first, reduced sizes last.

    `certificates` maps problems that a trivial answer satisfies (`"1_23"`) to the evidence. Results whose
    submission is missing are left out, as are rows whose kernel the submission has no more.
    """
    boards: dict[str, list[ResultFile]] = {}
    for result in results:
        if result.entry in submissions:
            boards.setdefault(result.board, []).append(result)
    made = [_board(name, files, submissions, certificates) for name, files in boards.items()]
    return tuple(
        sorted(made, key=lambda board: (board.sizes != "full", board.gpu != REFERENCE_GPU, board.name))
    )


def _board(
    name: str,
    files: Sequence[ResultFile],
    submissions: Mapping[str, Submission],
    certificates: Mapping[str, str],
) -> Board:
    entries = [_entry(file, submissions[file.entry]) for file in files]
    gains = {entry.result.entry: _gains(entry, certificates) for entry in entries}
    reasons = {entry.result.entry: _unranked_because(entry) for entry in entries}
    ranks = scores.shared_ranks({key: gains[key] for key, reason in reasons.items() if not reason})
    intervals = scores.deployed_intervals(gains)
    standings = [
        _standing(
            entry,
            certificates,
            rank=ranks.get(entry.result.entry),
            unranked_because=reasons[entry.result.entry],
            deployed_ci95=intervals[entry.result.entry],
        )
        for entry in entries
    ]
    return Board(
        name=name,
        gpu=files[0].gpu,
        sizes=files[0].sizes,
        standings=tuple(sorted(standings, key=_place)),
        unranked_problems=dict(certificates),
    )


def _place(standing: Standing) -> tuple[bool, float, str]:
    return standing.rank is None, -standing.overall.deployed_speedup, standing.entry


def _entry(file: ResultFile, submission: Submission) -> _Entry:
    digests = submission.digests
    valid = tuple(row for row in file.rows if digests.get(row.key) == row.kernel_sha256)
    return _Entry(
        submission=submission,
        result=dataclasses.replace(file, rows=valid),
        rows={row.key: row for row in valid},
    )


def _unranked_because(entry: _Entry) -> str:
    if entry.submission.is_baseline:
        return "baseline"
    if entry.result.profile != "ranked":
        return f"judged by the profile {entry.result.profile}"
    ranked = [key for key in entry.submission.kernels if key.level in RANKED_LEVELS]
    if not ranked:
        return f"no kernel on levels {RANKED_LEVELS[0]}-{RANKED_LEVELS[-1]}"
    waiting = sum(not _is_judged(entry.rows.get(key)) for key in ranked)
    return f"incomplete: {waiting} of {len(ranked)} kernels wait for a verdict" if waiting else ""


def _is_judged(row: Row | None) -> bool:
    return row is not None and row.status is not Status.INFRA_ERROR


def _standing(
    entry: _Entry,
    certificates: Mapping[str, str],
    *,
    rank: int | None,
    unranked_because: str,
    deployed_ci95: tuple[float, float],
) -> Standing:
    metadata = entry.submission.metadata
    levels = sorted({*RANKED_LEVELS, *(key.level for key in entry.submission.kernels)})
    return Standing(
        entry=entry.result.entry,
        display_name=entry.submission.display_name,
        organization=str(metadata.get("organization", "")),
        kind="baseline" if entry.submission.is_baseline else "entry",
        rank=rank,
        unranked_because=unranked_because,
        overall=_scores(entry, RANKED_LEVELS, certificates),
        levels={level: _scores(entry, (level,), certificates) for level in levels},
        deployed_ci95=deployed_ci95,
        failures=_failures(entry),
        metadata=metadata,
        result=entry.result,
    )


def _scores(entry: _Entry, levels: Sequence[int], certificates: Mapping[str, str]) -> Scores:
    keys = _first_samples(tuple(levels))
    rows = [entry.rows.get(key) for key in keys]
    speedups = [_speedup(row) for row in rows]
    ranked = [value for key, value in zip(keys, speedups, strict=True) if _is_ranked(key, certificates)]
    correct = sum(row is not None and row.is_correct for row in rows)
    compiled = sum(row is not None and row.status not in _NOT_COMPILED for row in rows)
    return Scores(
        problems=len(keys),
        ranked_problems=len(ranked),
        submitted=sum(key in entry.submission.kernels for key in keys),
        compiled=compiled,
        correct=correct,
        geomean_speedup=scores.geomean(speedups),
        geomean_n=sum(value is not None for value in speedups),
        deployed_speedup=scores.deployed_speedup(ranked, len(ranked)),
        fast={p: scores.fast_at_p(speedups, p, len(keys)) for p in THRESHOLDS},
        straddling={p: sum(_straddles(row, p) for row in rows) for p in THRESHOLDS},
        correct_rate=scores.rate(correct, len(keys)),
        compile_rate=scores.rate(compiled, len(keys)),
        pass_at_k=_pass_at_k(entry, levels),
        speedup_percentiles=scores.percentiles(speedups),
    )


@cache
def _first_samples(levels: tuple[int, ...]) -> tuple[KernelKey, ...]:
    return tuple(KernelKey(level, i) for level in levels for i in range(1, PROBLEM_COUNTS[level] + 1))


def _speedup(row: Row | None) -> float | None:
    return row.speedup if row is not None and row.is_correct else None


def _straddles(row: Row | None, p: float) -> bool:
    return row is not None and row.is_correct and scores.straddles(row.speedup_ci95, p)


def _is_ranked(key: KernelKey, certificates: Mapping[str, str]) -> bool:
    return f"{key.level}_{key.problem_id}" not in certificates


def _gains(entry: _Entry, certificates: Mapping[str, str]) -> scores.Gains:
    keys = [key for key in _first_samples(RANKED_LEVELS) if _is_ranked(key, certificates)]
    return scores.log_gains(_speedup(entry.rows.get(key)) for key in keys)


def _pass_at_k(entry: _Entry, levels: Sequence[int]) -> dict[int, float]:
    """Average pass@k over all problems; a problem without samples counts as never passed."""
    samples = Counter((key.level, key.problem_id) for key in entry.submission.kernels if key.level in levels)
    passed = Counter((key.level, key.problem_id) for key, row in entry.rows.items() if row.is_correct)
    problems = sum(PROBLEM_COUNTS[level] for level in levels)
    most = max(samples.values(), default=0)
    return {
        k: sum(scores.pass_at_k(n, passed[problem], k) for problem, n in samples.items()) / problems
        for k in PASS_AT
        if k == 1 or k <= most
    }


def _failures(entry: _Entry) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for key in _first_samples(RANKED_LEVELS):
        row = entry.rows.get(key)
        if row is not None and not row.is_correct:
            counts[row.status.value] += 1
        elif row is None and key not in entry.submission.kernels:
            counts["missing"] += 1
    return dict(counts)
