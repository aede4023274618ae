"""The stage `aggregate`: rows to standings. Pure: takes records and gives records, reads no file."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from kernel_evaluator import scores
from kernel_evaluator.records.keys import PROBLEM_COUNTS, RANKED_LEVELS, KernelKey
from kernel_evaluator.records.rows import BOARD_PRECISIONS, ResultFile, Row, Status
from kernel_evaluator.upstream.files import is_compiled

from leaderboard.files.store import StoreError
from leaderboard.files.submission import Submission
from leaderboard.light.roofline import roofs_for
from leaderboard.stages.confirm import needs_second
from leaderboard.stages.known import Known, digest_of
from leaderboard.stages.plan import ProblemKey
from leaderboard.stages.ranks import shared_ranks
from leaderboard.stages.references import against, factors_of
from leaderboard.stages.speedups import Speedups
from leaderboard.stages.standings import THRESHOLDS, Board, Scores, Standing

REFERENCE_GPU = "H100"
"""The GPU model whose board comes first."""

PASS_AT = (1, 5, 10, 20, 50, 100)

Certificates = Mapping[str, Mapping[str, str]]
"""By precision the problems that do not rank, such as `"1_23"`, each with the evidence."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One entry on one board, scored but not ranked: rank and interval of `standing` are still to come.

    `speedups` holds the logarithms of the speedups that count for the rank.
    """

    standing: Standing
    speedups: Speedups


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """One submission with its valid rows, on one board, sorted the ways that scores ask for them.

    `unranked` names the problems that do not rank. `first` maps a level to the rows of sample 0, one a
    problem, None where there is none; `samples` and `passed` count a problem's kernels and correct kernels.
    """

    submission: Submission
    result: ResultFile
    unranked: Mapping[str, str]
    first: Mapping[int, Sequence[Row | None]]
    samples: Mapping[ProblemKey, int]
    passed: Mapping[ProblemKey, int]


def aggregate(
    results: Iterable[ResultFile], submissions: Mapping[str, Submission], certificates: Certificates
) -> tuple[Board, ...]:
    """Make the boards: one a GPU model, precision and size class, those of reduced sizes last.

    Results whose submission is missing are left out, as are rows whose kernel the submission has no more, and
    speedups of entries, not of baselines, that were found once and have to be found twice. Raises StoreError
    where `certificates` say nothing of a precision.
    """
    known = (result for result in results if result.entry in submissions)
    return rank((score(result, submissions[result.entry], certificates) for result in known), certificates)


def score(result: ResultFile, submission: Submission, certificates: Certificates) -> Scored:
    """Score one entry on one board: all of `aggregate` that needs no other entry."""
    entry = _entry(result, submission, unranked_in(certificates, result.precision))
    return Scored(standing=_standing(entry), speedups=_speedups(entry))


def unranked_in(certificates: Certificates, precision: str) -> Mapping[str, str]:
    """Give the problems that do not rank in a precision; raise StoreError where nobody looked."""
    if precision not in certificates:
        raise StoreError(f"no certificates say which problems are ranked in {precision}: see kbl certify")
    return certificates[precision]


def rank(
    scored: Iterable[Scored], certificates: Certificates, known: Known | None = None
) -> tuple[Board, ...]:
    """Make the boards, as `aggregate` does, of entries scored with the same certificates.

    What `known` holds of the same figures is not worked out again.
    """
    known = known or Known()
    boards: dict[str, list[Scored]] = {}
    for item in scored:
        boards.setdefault(item.standing.result.board, []).append(item)
    made = [_board(name, items, certificates, known) for name, items in boards.items()]
    return tuple(sorted(made, key=_order))


def _order(board: Board) -> tuple[bool, bool, bool, int, bool, str]:
    """Boards on which something is ranked come first, those of KernelBench's own precision before others.

    The site opens with the first, and its problems and comparisons are the first's: of two the one that ranks
    more entries, and where both rank as many that of the reference GPU.
    """
    ranked = sum(standing.rank is not None for standing in board.standings)
    is_other = board.precision != BOARD_PRECISIONS[0]
    return board.sizes != "full", not ranked, is_other, -ranked, board.gpu != REFERENCE_GPU, board.name


def _board(name: str, scored: Sequence[Scored], certificates: Certificates, known: Known) -> Board:
    gains = {item.standing.entry: item.speedups.gains for item in scored}
    ranked = [item.standing.entry for item in scored if not item.standing.unranked_because]
    ranks = shared_ranks({entry: gains[entry] for entry in ranked}, known)
    intervals = known.all_of(
        {entry: digest_of("interval", item) for entry, item in gains.items()},
        lambda entries: scores.geomean_intervals({entry: gains[entry] for entry in entries}),
    )
    speedups = {item.standing.entry: item.speedups for item in scored}
    baselines = [item.standing.entry for item in scored if item.standing.kind == "baseline"]
    factors = factors_of({name: speedups[name] for name in baselines})
    held = against(speedups, factors, known)
    standings = [
        dataclasses.replace(
            standing,
            rank=ranks.get(standing.entry),
            deployed_ci95=intervals[standing.entry],
            against={reference: found[standing.entry][0] for reference, found in held.items()},
            levels_against={reference: found[standing.entry][1] for reference, found in held.items()},
        )
        for standing in (item.standing for item in scored)
    ]
    of_board = scored[0].standing.result
    return Board(
        name=name,
        gpu=of_board.gpu,
        sizes=of_board.sizes,
        precision=of_board.precision,
        standings=tuple(sorted(standings, key=_place)),
        unranked_problems=dict(unranked_in(certificates, of_board.precision)),
        speedups=speedups,
        references=factors,
    )


def _place(standing: Standing) -> tuple[bool, float, str]:
    return standing.rank is None, -standing.overall.deployed_speedup, standing.entry


def counted(result: ResultFile, submission: Submission) -> ResultFile:
    """Leave out the rows that count nowhere: of kernels that are no more, or found once of twice.

    A baseline's speedup is not ranked, and counts as it was found once.
    """
    digests = submission.digests
    found = result if submission.is_baseline else found_as_often_as_asked(result)
    return _cut_to(found, (row for row in found.rows if digests.get(row.key) == row.kernel_sha256))


def found_as_often_as_asked(result: ResultFile) -> ResultFile:
    """Leave out the speedups that were found once and have to be found twice."""
    if result.profile != "ranked":
        return result
    return _cut_to(result, (row for row in result.rows if not needs_second(row)))


def _cut_to(result: ResultFile, rows: Iterable[Row]) -> ResultFile:
    kept = tuple(rows)
    return result if len(kept) == len(result.rows) else dataclasses.replace(result, rows=kept)


def _entry(file: ResultFile, submission: Submission, unranked: Mapping[str, str]) -> _Entry:
    result = counted(file, submission)
    rows = {row.key: row for row in result.rows}
    return _Entry(
        submission=submission,
        result=result,
        unranked=unranked,
        first={level: [rows.get(key) for key in _first_samples(level)] for level in PROBLEM_COUNTS},
        samples=Counter((key.level, key.problem_id) for key in submission.kernels),
        passed=Counter((row.key.level, row.key.problem_id) for row in result.rows if row.is_correct),
    )


def _standing(entry: _Entry) -> Standing:
    metadata = entry.submission.metadata
    levels = sorted({*RANKED_LEVELS, *(level for level, _ in entry.samples)})
    return Standing(
        entry=entry.result.entry,
        display_name=entry.submission.display_name,
        organization=str(metadata.get("organization", "")),
        kind="baseline" if entry.submission.is_baseline else "entry",
        rank=None,
        unranked_because=_unranked_because(entry),
        overall=_scores(entry, RANKED_LEVELS),
        levels={level: _scores(entry, (level,)) for level in levels},
        deployed_ci95=(math.nan, math.nan),
        failures=_failures(entry),
        metadata=metadata,
        result=entry.result,
    )


def _unranked_because(entry: _Entry) -> str:
    incomplete = _incomplete(entry)
    if entry.submission.is_baseline:
        return f"baseline, {incomplete}" if incomplete else "baseline"
    if entry.result.profile != "ranked":
        return f"judged by the profile {entry.result.profile}"
    if not _that_rank(entry):
        return "no kernel on a problem that ranks"
    return incomplete


def _incomplete(entry: _Entry) -> str:
    """What no rank hangs on is not waited for: some references do not even run in half precision."""
    ranked = _that_rank(entry)
    judged = {row.key for row in entry.result.rows if row.status is not Status.INFRA_ERROR}
    waiting = sum(key not in judged for key in ranked)
    return f"incomplete: {waiting} of {len(ranked)} kernels wait for a verdict" if waiting else ""


def _that_rank(entry: _Entry) -> list[KernelKey]:
    """Give the kernels of problems that rank, further samples too."""
    return [
        key
        for key in entry.submission.kernels
        if key.level in RANKED_LEVELS and f"{key.level}_{key.problem_id}" not in entry.unranked
    ]


def _scores(entry: _Entry, levels: Sequence[int]) -> Scores:
    found = dict(_first_of_ranked(entry, levels))
    rows, problems = found.values(), len(found)
    tried = [row for row in rows if row is not None and row.is_correct and row.elsewhere]
    correct = [row for row in rows if row is not None and row.is_correct]
    compiled = sum(row is not None and is_compiled(row) for row in rows)
    speedups = [row.speedup for row in correct]
    intervals = [scores.published_interval(row.speedup_ci95) for row in correct]
    ranked = _ranked_speedups(entry, levels)
    return Scores(
        problems=problems,
        ranked_problems=len(ranked),
        submitted=len(found.keys() & entry.submission.kernels.keys()),
        compiled=compiled,
        correct=len(correct),
        geomean_speedup=scores.geomean(speedups),
        geomean_n=sum(value is not None for value in speedups),
        deployed_speedup=scores.deployed_speedup(ranked, len(ranked)),
        fast={p: scores.fast_at_p(speedups, p, problems) for p in THRESHOLDS},
        straddling={p: sum(scores.straddles(interval, p) for interval in intervals) for p in THRESHOLDS},
        correct_rate=scores.rate(len(correct), problems),
        compile_rate=scores.rate(compiled, problems),
        general=sum("general" in row.labels for row in tried),
        tried_elsewhere=len(tried),
        pass_at_k=_pass_at_k(entry, levels, problems),
        speedup_percentiles=scores.percentiles(speedups),
        light_share=_light_share(entry, correct),
    )


def _first_of_ranked(entry: _Entry, levels: Iterable[int]) -> Iterator[tuple[KernelKey, Row | None]]:
    """Give the first sample's key and row of every problem that counts, None where it has no row."""
    for level in levels:
        for key, row in zip(_first_samples(level), entry.first[level], strict=True):
            if f"{level}_{key.problem_id}" not in entry.unranked:
                yield key, row


@cache
def _first_samples(level: int) -> tuple[KernelKey, ...]:
    return tuple(KernelKey(level, i) for i in range(1, PROBLEM_COUNTS[level] + 1))


def _ranked_speedups(entry: _Entry, levels: Iterable[int]) -> list[float | None]:
    """Give one speedup a problem that counts for the rank; None where no kernel of it is correct."""
    return [
        row.speedup if row is not None and row.is_correct else None
        for _, row in _first_of_ranked(entry, levels)
    ]


def _speedups(entry: _Entry) -> Speedups:
    problems = [f"{key.level}_{key.problem_id}" for key, _ in _first_of_ranked(entry, RANKED_LEVELS)]
    return Speedups.of(problems, _ranked_speedups(entry, RANKED_LEVELS))


def _light_share(entry: _Entry, correct: Iterable[Row]) -> float | None:
    known = roofs_for(entry.result)
    shares = [
        known[problem].share(row.runtime_ms.median)
        for row in correct
        if row.runtime_ms and (problem := f"{row.key.level}_{row.key.problem_id}") in known
    ]
    return statistics.median(shares) if shares else None


def _pass_at_k(entry: _Entry, levels: Sequence[int], problems: int) -> dict[int, float]:
    """Average pass@k over the problems that count; one without samples counts as never passed."""
    samples = {
        (level, at): n
        for (level, at), n in entry.samples.items()
        if level in levels and f"{level}_{at}" not in entry.unranked
    }
    most = max(samples.values(), default=0)
    return {
        k: sum(scores.pass_at_k(n, entry.passed[problem], k) for problem, n in samples.items()) / problems
        for k in PASS_AT
        if k == 1 or k <= most
    }


def _failures(entry: _Entry) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for key, row in _first_of_ranked(entry, RANKED_LEVELS):
        if row is not None and not row.is_correct:
            counts[row.status.value] += 1
        elif row is None and key not in entry.submission.kernels:
            counts["missing"] += 1
    return dict(counts)
