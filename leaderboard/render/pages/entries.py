"""The page of one entry on one board, and the same as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernel_evaluator.records.rows import Row

from leaderboard.render import places
from leaderboard.render.model import Revision
from leaderboard.render.output import compressed
from leaderboard.render.pages.answers import counts
from leaderboard.render.parts import charts, numbers, plots
from leaderboard.render.parts.lines import STATUS_WORDS, EntryLine, KernelLine, is_scored
from leaderboard.render.parts.rows import kernel_rows
from leaderboard.render.site import BoardView, Site
from leaderboard.stages.invariants import invariants
from leaderboard.stages.standings import Against, Scores

MESSAGE, LOG = 1000, 2000
"""Characters of a failure's message, and of the end of its log, that stand beside the row."""


def write_entry(site: Site, view: BoardView, line: EntryLine) -> None:
    """Write an entry's page, its JSON and its recorded result."""
    standing = line.standing
    kernels = view.by_entry[standing.entry]
    scored = [kernel for kernel in kernels if is_scored(kernel.key, view.board.unranked_problems)]
    statuses, failed = failures(kernels), failures(scored)
    site.page(
        line.page,
        "entry.html",
        view=view,
        line=line,
        standing=standing,
        rows=kernel_rows(kernels, root=places.up(line.page), board=view.name),
        failures=failed,
        beside=sum(number for *_, number in statuses) - sum(number for *_, number in failed),
        statuses=statuses,
        waiting=max(standing.overall.submitted - len(scored), 0),
        missing=missing(standing.overall),
        bars=charts.histogram([kernel.speedup for kernel in scored if kernel.speedup and kernel.is_correct]),
        bar_ticks=charts.histogram_ticks(),
        languages=Counter(kernel.language for kernel in kernels if kernel.language).most_common(),
        roofline=plots.roofline_plot(
            [kernel for kernel in kernels if kernel.sample == 0], view.roofs, *view.device
        ),
        progress=_progress(history(site, view, line), line.name),
        labels=Counter(label for kernel in scored for label in kernel.labels).most_common(),
        evaluators=site.data.evaluators.get((view.name, standing.entry), Counter()).most_common(),
        present=site.data.present,
        history=history(site, view, line),
        notices=[notice for notice in site.data.notices if notice.entry == standing.entry],
        siblings=[other for other in site.boards if other is not view and standing.entry in other.names],
        citation=citation(site, line),
        code_link=code_link(site, f"submissions/{standing.entry}.json"),
        result_link=code_link(site, f"data/results/{view.name}/{standing.entry}.json"),
    )
    write_verdicts(site, view, line)
    recorded = site.data.files.result(view.name, standing.entry)
    found = json.loads(recorded)
    data = entry_data(view, line, seen_of(found["rows"]) | stands_on(found))
    site.folder.write_packed(places.entry_api(view.name, standing.entry), data)
    if not view.is_large:
        site.folder.write(places.raw_result(view.name, standing.entry), compressed(recorded))


def _progress(revisions: Sequence[Revision], name: str) -> plots.TimePlot | None:
    """Draw an entry's deployed speedup over its evaluations; None where there is but one."""
    if len(revisions) < 2:
        return None
    points = [
        (
            item.finished_at,
            item.deployed_speedup or 1.0,
            f"revision {item.revision}: {numbers.speedup(item.deployed_speedup)}, {item.correct} correct",
        )
        for item in sorted(revisions, key=lambda item: item.finished_at)
    ]
    return plots.time_plot({name: points})


def write_verdicts(site: Site, view: BoardView, line: EntryLine) -> None:
    """Write the earlier verdicts on each kernel of an entry, where there are any."""
    earlier = site.data.verdicts.get((view.name, line.standing.entry))
    if earlier:
        body = {"board": view.name, "entry": line.standing.entry, "kernels": earlier}
        name = places.revisions_api(view.name, line.standing.entry)
        site.folder.write_packed(name, body)


def failures(kernels: Sequence[KernelLine]) -> list[tuple[str, str, int]]:
    """Count kernels that are not correct: (status, its words, how many), most frequent first."""
    counted = Counter(kernel.status for kernel in kernels if not kernel.is_correct)
    return [(status.value, STATUS_WORDS[status], number) for status, number in counted.most_common()]


def missing(scores: Scores) -> int:
    """Count the problems without a kernel."""
    return max(scores.problems - scores.submitted, 0)


def history(site: Site, view: BoardView, line: EntryLine) -> list[Revision]:
    """Give the entry's evaluations on the board, newest first, the current one among them."""
    standing, result = line.standing, line.standing.result
    current = Revision(
        revision=result.revision,
        reason=result.reason,
        finished_at=result.finished_at,
        evaluator_version=result.evaluator_version,
        correct=standing.overall.correct,
        deployed_speedup=standing.overall.deployed_speedup,
    )
    earlier = site.data.history.get((view.name, standing.entry), ())
    return [current, *sorted(earlier, key=lambda item: -item.revision)]


def citation(site: Site, line: EntryLine) -> str:
    """Write a BibTeX record; braces and backslashes of the name are left out, so that it stays one record."""
    name, organization = (_bibtex(text) for text in (line.name, line.organization))
    address = site.data.config.base_url + line.page if site.data.config.base_url else line.page
    author, board = organization or name, places.slug(line.standing.result.board)
    return (
        f"@misc{{kernelbench-leaderboard-{board.lower()}-{line.standing.entry},\n"
        f"  title = {{{name} on the KernelBench Leaderboard}},\n"
        f"  author = {{{{{author}}}}},\n"
        f"  year = {{{line.date[:4]}}},\n"
        f"  note = {{{line.standing.result.board}, revision {line.standing.result.revision}, {line.date}}},\n"
        f"  howpublished = {{\\url{{{address}}}}}\n}}"
    )


def code_link(site: Site, path: str) -> str:
    """Link a file in the repository, on whatever its default branch is called; empty where none is set."""
    repository = numbers.safe_url(site.data.config.repository)
    return f"{repository.rstrip('/')}/blob/HEAD/{path}" if repository else ""


def seen_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Give what was seen of recorded rows that failed: key to message, end of the log, and evidence."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        failure = row.get("failure") or {}
        values = {
            "message": str(failure.get("message", ""))[:MESSAGE],
            "log": str(failure.get("log", ""))[-LOG:],
            "evidence": row.get("evidence"),
        }
        values = {name: value for name, value in values.items() if value}
        if values and row["status"] != "correct":
            found[row["key"]] = values
    return found


def stands_on(result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Give what the correct rows of a recorded result stand on: key to their invariants, as far as noted.

    `walls` counts those that were tried and stood; `environments` name them.
    """
    found: dict[str, dict[str, Any]] = {}
    for data in result["rows"]:
        if data["status"] == "correct" and data.get("rounds"):
            row = Row.from_json(data)
            item = invariants(row)
            walls = result["environments"].get(row.environment, {}).get("isolation", ())
            values = {**(dataclasses.asdict(item) if item else {}), "walls": len(walls)}
            shown = {name: _short(value) for name, value in values.items() if value is not None}
            found[data["key"]] = {"stands_on": shown}
    return found


def _short(value: Any) -> Any:
    """Cut a figure to three digits: enough to see that it holds, and a large board has millions."""
    return float(f"{value:.3g}") if isinstance(value, float) else value


def entry_data(view: BoardView, line: EntryLine, seen: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Give an entry's scores and rows as JSON; the recorded result file holds every digit.

    `seen` holds what was seen of kernels that failed, and what rows of the others stand on, by key.
    """
    standing, result = line.standing, line.standing.result
    return {
        "schema_version": 1,
        "board": view.name,
        "entry": standing.entry,
        **standing_data(line),
        "submission_sha256": result.submission_sha256,
        "evaluator_version": result.evaluator_version,
        "revision": result.revision,
        "reason": result.reason,
        "started_at": result.started_at,
        "finished_at": result.finished_at,
        "gpu_seconds": numbers.rounded(result.gpu_seconds),
        "cpu_seconds": numbers.rounded(result.cpu_seconds),
        "environments": {name: dataclasses.asdict(item) for name, item in result.environments.items()},
        "rows": [
            {**kernel_data(kernel, counted=counts(view, kernel.problem)), **seen.get(str(kernel.key), {})}
            for kernel in view.by_entry[standing.entry]
        ],
    }


def standing_data(line: EntryLine) -> dict[str, Any]:
    """Give a standing's line as JSON: who, which rank, and every score."""
    standing = line.standing
    return {
        "display_name": line.name,
        "organization": line.organization,
        "kind": standing.kind,
        "model": line.model,
        "scaffold": line.scaffold,
        "cost_usd": line.cost_usd,
        "tokens": line.tokens,
        "rank": standing.rank,
        "rank_shared_by": line.sharing if standing.rank is not None else None,
        "unranked_because": standing.unranked_because,
        "deployed_ci95": [numbers.rounded(bound) for bound in standing.deployed_ci95],
        "overall": scores_data(standing.overall),
        "against": {reference: against_data(item) for reference, item in standing.against.items()},
        "levels": {str(level): scores_data(scores) for level, scores in sorted(standing.levels.items())},
        "failures": dict(standing.failures),
    }


def scores_data(scores: Scores) -> dict[str, Any]:
    """Give scores as JSON, with rates and speedups at six digits."""
    return {
        "problems": scores.problems,
        "ranked_problems": scores.ranked_problems,
        "submitted": scores.submitted,
        "compiled": scores.compiled,
        "correct": scores.correct,
        "geomean_speedup": numbers.rounded(scores.geomean_speedup),
        "geomean_n": scores.geomean_n,
        "deployed_speedup": numbers.rounded(scores.deployed_speedup),
        "fast": {f"{p:g}": numbers.rounded(share) for p, share in scores.fast.items()},
        "straddling": {f"{p:g}": number for p, number in scores.straddling.items()},
        "correct_rate": numbers.rounded(scores.correct_rate),
        "compile_rate": numbers.rounded(scores.compile_rate),
        "light_share": numbers.rounded(scores.light_share),
        "general": scores.general,
        "tried_elsewhere": scores.tried_elsewhere,
        "pass_at_k": {str(k): numbers.rounded(share) for k, share in scores.pass_at_k.items()},
        "speedup_percentiles": {
            f"{q:g}": numbers.rounded(value) for q, value in scores.speedup_percentiles.items()
        },
    }


def against_data(against: Against) -> dict[str, Any]:
    """Give scores against another reference than eager PyTorch as JSON."""
    return {
        "deployed_speedup": numbers.rounded(against.deployed_speedup),
        "deployed_ci95": _bounds(against.ci95),
        "geomean_speedup": numbers.rounded(against.geomean_speedup),
        "fast": {f"{p:g}": numbers.rounded(share) for p, share in against.fast.items()},
    }


def kernel_data(line: KernelLine, *, counted: bool) -> dict[str, Any]:
    """Give one kernel's line as JSON, without the fields that say nothing."""
    values: dict[str, Any] = {
        "key": str(line.key),
        "status": line.status.value,
        "speedup": numbers.rounded(line.speedup),
        "speedup_ci95": _bounds(line.interval),
        "runtime_ms": numbers.rounded(line.runtime_ms),
        "reference_ms": numbers.rounded(line.reference_ms),
        "light_share": numbers.rounded(line.light_share),
        "light_share_ci95": _bounds(line.light_interval),
        "language": line.language,
        "labels": list(line.labels),
        "failure": line.message,
        "kernel_sha256": line.kernel_sha256,
        "counted": counted,
    }
    return {name: value for name, value in values.items() if value not in (None, "", [])}


def _bounds(interval: tuple[float, float] | None) -> list[float | None] | None:
    return None if interval is None else [numbers.rounded(bound) for bound in interval]


def _bibtex(text: str) -> str:
    return "".join(sign for sign in text if sign not in "{}\\%#&$~^_")
