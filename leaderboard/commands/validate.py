"""`kbl validate`: checks submissions and prints what to mend, for people, programs or pull requests."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from leaderboard.checks.report import Mistake, Report
from leaderboard.texts.inert import annotation
from leaderboard.texts.lists import counted
from leaderboard.texts.say import say

SHOWN_UNSCORED = 10


class ReportFormat(StrEnum):
    """How reports are printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("validate")(validate_command)


def validate_command(
    paths: Annotated[list[Path], typer.Argument(help="Submission files, or folders of them.")],
    *,
    output: Annotated[ReportFormat, typer.Option("--format", help="How to print.")] = ReportFormat.TEXT,
    every: Annotated[bool, typer.Option("--all", help="List all mistakes, not 20 a file.")] = False,
) -> None:
    """Check submissions without running them; list mistakes with their places and their mends.

    Exit status: 0 all fine, 1 a submission has mistakes, 2 a file cannot be read, or a folder holds none.
    """
    from leaderboard.checks.report import MAX_SHOWN
    from leaderboard.stages.validate import validate

    reports = []
    for report in validate(paths, sys.maxsize if every else MAX_SHOWN):
        reports.append(report)
        for line in [] if output is ReportFormat.JSON else _lines(report, output):
            say(line)
    say(_as_json(reports) if output is ReportFormat.JSON else _summary(reports))
    raise typer.Exit(exit_code(reports))


def exit_code(reports: Sequence[Report]) -> int:
    """Give 0 where all is fine, 2 where there was nothing to read, and 1 for mistakes alone."""
    if any(report.unreadable for report in reports):
        return 2
    return 0 if all(report.is_fine for report in reports) else 1


def _lines(report: Report, output: ReportFormat) -> Iterator[str]:
    path = _shown(report.path)
    for kind, listed, more in (
        ("error", report.mistakes, report.more),
        ("warning", report.warnings, report.more_warnings),
    ):
        for mistake in listed:
            yield from _line(path, kind, mistake, output)
        if more:
            yield f"{path}: and {more} more {'mistakes' if kind == 'error' else 'warnings'}; --all lists them"
    if report.is_fine and output is ReportFormat.TEXT:
        yield f"{path}: fine, {counted(report.kernels, 'kernel')}"
    if report.unscored:
        note = unscored_words(report.unscored)
        is_text = output is ReportFormat.TEXT
        yield f"    note: {note}" if is_text else annotation("warning", note, file=path, title="unscored")


def _line(path: str, kind: str, mistake: Mistake, output: ReportFormat) -> Iterator[str]:
    place = f"{path}:{mistake.line}:{mistake.column}"
    if output is ReportFormat.GITHUB:
        message = f"{mistake.message}; {mistake.mend}"
        yield annotation(kind, message, file=path, line=mistake.line, col=mistake.column, title=mistake.rule)
    else:
        said = "" if kind == "error" else "warning: "
        yield f"{place}: {said}{mistake.rule}: {mistake.message}"
        yield f"    mend: {mistake.mend}"


def unscored_words(problems: Sequence[str]) -> str:
    """Say of which problems no sample is scored."""
    named = ", ".join(problems[:SHOWN_UNSCORED]) + (", …" if len(problems) > SHOWN_UNSCORED else "")
    have = "has" if len(problems) == 1 else "have"
    return f"{named} {have} samples but no sample 0, which alone is scored; others serve pass@k"


def _as_json(reports: Sequence[Report]) -> str:
    files = [{**dataclasses.asdict(report), "path": _shown(report.path)} for report in reports]
    return json.dumps({"fine": all(report.is_fine for report in reports), "files": files}, indent=2)


def _summary(reports: Sequence[Report]) -> str:
    fine = sum(report.is_fine for report in reports)
    mistakes = sum(len(report.mistakes) + report.more for report in reports)
    found = f"; {counted(mistakes, 'mistake')} to mend" if mistakes else ""
    return f"{fine} of {counted(len(reports), 'submission')} fine{found}"


def _shown(path: Path) -> str:
    """The path as one line of printable text, whatever the file is called."""
    text = path.as_posix()
    return text if text.isprintable() else repr(text)[1:-1]
