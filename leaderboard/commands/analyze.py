"""`kbl analyze` and `kbl compare`: scores of one run broken down, and two runs side by side."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leaderboard.commands.ends import failed
from leaderboard.commands.options import Format, Output, Problems, finite, problem_set_in
from leaderboard.texts.columns import as_columns
from leaderboard.texts.lists import counted
from leaderboard.texts.say import say

if TYPE_CHECKING:
    from leaderboard.runs.analyze import Question
    from leaderboard.runs.compare import EntryComparison, Pair
    from leaderboard.runs.reading import KernelOutcome, Measured


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("analyze")(analyze_command)
    app.command("compare")(compare_command)


def _picture(plot: Path | None) -> Path | None:
    """Take no other kind of file than the two that the help names, whatever else matplotlib can draw."""
    if plot is not None and plot.suffix.lower() not in (".svg", ".png"):
        raise typer.BadParameter(f"must end in .svg or .png, got {plot.name}")
    return plot


def analyze_command(
    source: Annotated[Path, typer.Argument(help="A result file, or a run folder with eval_results.json.")],
    *,
    against: Annotated[
        list[str] | None, typer.Option(help="Times to compare with, NAME=FILE; may be repeated.")
    ] = None,
    threshold: Annotated[
        list[float] | None, typer.Option(help="A p of fast_p; may be repeated.", min=0.0, callback=finite)
    ] = None,
    k: Annotated[list[int] | None, typer.Option(help="A k of pass@k; may be repeated.", min=1)] = None,
    categories: Annotated[bool, typer.Option(help="Break levels down by category.")] = True,
    output: Output = Format.TABLE,
    plot: Annotated[
        Path | None, typer.Option(help="Draw fast_p over p into this .svg or .png.", callback=_picture)
    ] = None,
    problems: Problems = None,
) -> None:
    """Break a run's scores down by level and category: fast_p, geomean, pass@k, percentiles of speedup.

    As in KernelBench, rates are over all problems of the run's levels, and fast_p is strict (speedup > p).
    Exit status: 0 shown, 2 a file cannot be read, an option does not fit it, or the plot cannot be drawn.
    """
    from leaderboard.checks.report import unscored
    from leaderboard.commands.validate import unscored_words
    from leaderboard.files.store import StoreError
    from leaderboard.runs.analyze import DEFAULT_THRESHOLDS, Question, analyze, fast_p_curve
    from leaderboard.runs.reading import read_measured, read_times
    from leaderboard.show.plots import PlotError, draw_fast_p

    try:
        problem_set = problem_set_in(problems)
        measured = read_measured(source)
        times = {name: read_times(text, problem_set) for name, text in _named(against or []).items()}
        for name, each in times.items():
            each.require_alike(f"--against {name}", measured.name, measured)
        question = Question(
            references={name: each.ms for name, each in times.items()},
            thresholds=sorted(threshold) if threshold else DEFAULT_THRESHOLDS,
            pass_at=k or [1],
            by_category=categories,
        )
        _require_answers(measured, question)
        lines = [figures.flat() for figures in analyze(measured, problem_set, question)]
        if plot:
            draw_fast_p(plot, measured.name, fast_p_curve(measured, problem_set, question))
    except (StoreError, PlotError, ValueError, OSError) as error:
        raise failed(error) from error
    if passed_over := unscored(measured.samples):
        say(f"note: {unscored_words(passed_over)}", err=True)
    untimed = (line["against"] for line in lines if line["correct"] and line["deployed"] is None)
    for shown in dict.fromkeys(untimed):
        if shown in times:
            said = (
                f"--against {shown} shows no speedups: no problem with a time there has a timed kernel here"
            )
        else:
            said = "the run has no speedups; --against NAME=FILE names times to compare with"
        say(f"note: {said}", err=True)
    facts = {"name": measured.name, "hardware": measured.hardware}
    say(_shown(lines, output, facts), nl=output is not Format.CSV)


def compare_command(
    a: Annotated[Path, typer.Argument(help="A result file or a run folder.")],
    b: Annotated[Path, typer.Argument(help="Another one.")],
    *,
    output: Output = Format.TABLE,
    top: Annotated[int, typer.Option(help="Kernels listed in a table; 0 lists all.", min=0)] = 20,
) -> None:
    """Put two runs side by side: what each gets right, and how much faster B is where both are right.

    All kernels count, of problems that do not rank too. A table has speedups, or the status of what is not
    correct; the largest changes come first. A `*` marks kernels whose intervals lie apart. Exit status: 0
    shown, 2 a file cannot be read.
    """
    from leaderboard.files.store import StoreError
    from leaderboard.runs.compare import compare
    from leaderboard.runs.reading import read_measured

    try:
        comparison = compare(read_measured(a), read_measured(b))
    except (StoreError, OSError) as error:
        raise failed(error) from error
    if output in (Format.JSON, Format.CSV):
        facts, lines = _figures(comparison), [_pair_line(pair) for pair in comparison.pairs]
    else:
        facts, lines = _summary(comparison), [_pair_row(pair) for pair in comparison.pairs[: top or None]]
        if len(lines) < len(comparison.pairs):
            facts["listed"] = f"{len(lines)} of {len(comparison.pairs)} kernels; --top 0 lists all"
    say(_shown(lines, output, facts), nl=output is not Format.CSV)


def _require_answers(measured: Measured, question: Question) -> None:
    """Raise ValueError where a column could say nothing, or would answer another question."""
    samples = Counter((key.level, key.problem_id) for key in measured.samples)
    if not samples:
        raise ValueError(f"{measured.name}: no kernel of it was judged; evaluate it first")
    for name, times in question.references.items():
        if not samples.keys() & times.keys():
            raise ValueError(f"--against {name}: the file has no time for any problem of {measured.name}")
    most = max(samples.values())
    if max(question.pass_at) > most:
        raise ValueError(
            f"--k {max(question.pass_at)}: {measured.name} has {most} samples of a problem at most"
        )


def _named(texts: Sequence[str]) -> dict[str, str]:
    named = [text.partition("=") for text in texts]
    for name, separator, _ in named:
        if not separator:
            raise ValueError(f"--against must look like NAME=FILE, got {name!r}")
    for name, times in Counter(name for name, _, _ in named).items():
        if times > 1:
            raise ValueError(f"--against names {name!r} {times} times; give each file a name of its own")
    return {name: path for name, _, path in named}


def _shown(lines: Sequence[Mapping[str, Any]], output: Format, facts: Mapping[str, Any]) -> str:
    if output is Format.JSON:
        return json.dumps({**facts, "lines": list(lines)}, indent=2)
    if output is Format.CSV:
        import pandas as pd

        return str(pd.DataFrame(lines).to_csv(index=False))
    head = "\n".join(f"{name}: {value}" for name, value in facts.items() if value not in ("", None))
    return head + "\n\n" + as_columns(lines, output.style)


def _summary(comparison: EntryComparison) -> dict[str, Any]:
    interval = comparison.geomean_ci95
    ratio = comparison.geomean_ratio
    others = comparison.on_other_problems
    times = f"{ratio:.3f}x" if ratio else "-"
    if interval:
        times += f" (95 % interval {interval[0]:.3f} to {interval[1]:.3f})"
    return {
        "A": _where(comparison.a),
        "B": _where(comparison.b),
        "correct in": ", ".join(f"{word} {count}" for word, count in comparison.outcomes.items()),
        "B faster than A, geomean": f"{times} over {counted(len(comparison.ratios), 'problem')}",
        "not compared": f"{counted(others, 'kernel')} whose problems differ in source" if others else "",
    }


def _figures(comparison: EntryComparison) -> dict[str, Any]:
    """Give what the summary says as values."""
    names = ("name", "hardware", "precision", "sizes", "profile", "clock")
    interval = comparison.geomean_ci95
    return {
        "a": {name: getattr(comparison.a, name) for name in names},
        "b": {name: getattr(comparison.b, name) for name in names},
        "correct": {word.replace(" ", "_").lower(): count for word, count in comparison.outcomes.items()},
        "geomean_ratio": comparison.geomean_ratio,
        "geomean_ratio_ci95": list(interval) if interval else None,
        "problems": len(comparison.ratios),
    }


def _where(run: Measured) -> str:
    precision = "" if run.precision == "fp32" else f" in {run.precision}"
    profile = f", profile {run.profile}" if run.profile not in ("", "ranked") else ""
    clock = f", clock {run.clock}" if run.clock else ""
    return f"{run.name}, {run.hardware or 'unknown hardware'}{precision}, {run.sizes} sizes{profile}{clock}"


def _pair_line(pair: Pair) -> dict[str, Any]:
    return {
        "key": str(pair.key),
        "a_status": pair.a.status if pair.a else "missing",
        "b_status": pair.b.status if pair.b else "missing",
        "a_runtime_ms": pair.a.runtime_ms if pair.a else None,
        "b_runtime_ms": pair.b.runtime_ms if pair.b else None,
        "a_speedup": pair.a.speedup if pair.a else None,
        "b_speedup": pair.b.speedup if pair.b else None,
        "ratio": pair.ratio,
        "clear": pair.clear,
    }


def _pair_row(pair: Pair) -> dict[str, Any]:
    ratio = f"{pair.ratio:.3f}{'*' if pair.clear else ''}" if pair.ratio else "-"
    return {"kernel": str(pair.key), "A": _told(pair.a), "B": _told(pair.b), "B over A": ratio}


def _told(sample: KernelOutcome | None) -> str:
    if sample is None:
        return "missing"
    return f"{sample.speedup:.3f}x" if sample.correct and sample.speedup else sample.status
