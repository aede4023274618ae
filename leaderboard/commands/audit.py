"""`kbl audit`, `kbl replay`, `kbl copies`: second looks at rows, at their evidence, and at kernels' texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leaderboard.commands.ends import failed
from leaderboard.commands.options import DeviceChoice, Problems, problem_set_in, submission_of
from leaderboard.texts.faults import words_for
from leaderboard.texts.say import say

if TYPE_CHECKING:
    from kernel_evaluator.problems.jobs import Settings
    from kernel_evaluator.records.rows import ResultFile

    from leaderboard.files.submission import Submission
    from leaderboard.runs.audit import JudgedAgain
    from leaderboard.stages.engines import Place

_Result = Annotated[Path, typer.Argument(help="Result file under data/results/.")]
_Entry = Annotated[Path | None, typer.Option("--submission", help="Its submission; by its entry's name.")]
_Device = Annotated[DeviceChoice, typer.Option(help="What to run on.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("audit")(audit_command)
    app.command("replay")(replay_command)
    app.command("copies")(copies_command)


def audit_command(
    result: _Result,
    *,
    submission: _Entry = None,
    problems: Problems = None,
    keys: Annotated[str, typer.Option(help="These kernels, separated by commas.")] = "",
    top: Annotated[int, typer.Option(help="Else all in quarantine and so many of the fastest.", min=0)] = 10,
    engine: Annotated[str, typer.Option(help="Where kernels run: local or ray.")] = "local",
    device: _Device = DeviceChoice.AUTO,
    out: Annotated[Path | None, typer.Option(help="Write what was found as JSON.")] = None,
) -> None:
    """Judge recorded kernels again, in fresh processes and with new seeds, and compare.

    Exit status: 0 every row holds, 1 one does not, 2 the audit cannot start.
    """
    from kernel_evaluator.machine.extras import require
    from kernel_evaluator.records.keys import KernelKey

    from leaderboard.files.store import StoreError, read_result
    from leaderboard.files.submission import InvalidSubmissionError
    from leaderboard.runs.audit import audit, choose, jobs_for
    from leaderboard.stages.engines import EvaluationError
    from leaderboard.stages.evaluate import load_problems

    require("evaluate", "kbl audit")
    try:
        recorded = read_result(result)
        entry, settings, place = _judged_by(recorded, submission, device, engine)
        named = dict.fromkeys(KernelKey.parse(key) for key in keys.split(",")) if keys else {}
        chosen = [*named] or choose(recorded, top)
        _require_rows(recorded, chosen)
        known = load_problems(problem_set_in(problems), chosen, recorded.sizes)
        jobs = jobs_for(chosen, entry.kernels, known)
        if out is not None and out.is_dir():
            raise ValueError(f"--out must be a file, {out} is a folder")
        findings: list[JudgedAgain] = []
        _write(out, findings)  # what cannot be written is better known before than after
    except (StoreError, InvalidSubmissionError, EvaluationError, ValueError, KeyError, OSError) as error:
        raise failed(error) from error
    try:
        for finding in audit(recorded, jobs, place.engine, settings):
            findings.append(finding)
            say(f"{finding.before.key}: {finding.differs or 'holds'}")
            _write(out, findings)
    except EvaluationError as error:
        raise failed(error) from error
    held = len(findings) == len(jobs) and not any(each.differs for each in findings)
    say(f"{sum(not each.differs for each in findings)} of {len(jobs)} rows hold")
    raise typer.Exit(0 if held else 1)


def replay_command(
    result: _Result,
    key: Annotated[str, typer.Argument(help="The kernel: level_1_problem_19_sample_0.")],
    *,
    submission: _Entry = None,
    problems: Problems = None,
    device: _Device = DeviceChoice.AUTO,
) -> None:
    """Show the log and the evidence behind a row, and run its counter-example once more.

    Showing needs no GPU, the counter-example the row's. Exit status: 0 it is wrong again, 1 it is not, or
    there is no counter-example, 2 the row cannot be shown, or its counter-example not be run.
    """
    import json

    from kernel_evaluator.machine.extras import require
    from kernel_evaluator.records.keys import KernelKey

    from leaderboard.files.store import StoreError, read_result
    from leaderboard.files.submission import InvalidSubmissionError
    from leaderboard.runs.audit import jobs_for
    from leaderboard.stages.agreement import other_work
    from leaderboard.stages.engines import EvaluationError
    from leaderboard.stages.evaluate import load_problems
    from leaderboard.texts.inert import log_text

    require("evaluate", "kbl replay")
    from kernel_evaluator.candidate.processes import RunFailed
    from kernel_evaluator.replay import replay

    try:
        recorded, wanted = read_result(result), KernelKey.parse(key)
        _require_rows(recorded, [wanted])
    except (StoreError, ValueError, OSError) as error:
        raise failed(error) from error
    row = next(row for row in recorded.rows if row.key == wanted)
    say(f"{key} is {row.status}: {row.failure.message if row.failure else 'nothing is held against it'}")
    if row.failure and row.failure.log:
        say(log_text(row.failure.log))
    if row.evidence:
        say(json.dumps(row.evidence, indent=1))
    example: dict[str, Any] | None = (row.evidence or {}).get("counter_example")
    if example is None:
        say("there is no counter-example to run; kbl audit judges the kernel again")
        raise typer.Exit(1)
    try:
        entry, settings, _ = _judged_by(recorded, submission, device)
        known = load_problems(problem_set_in(problems), [wanted], recorded.sizes)
        [job] = jobs_for([wanted], entry.kernels, known)
        if other := other_work(row, job.kernel_sha256, job.problem.sha256):
            raise ValueError(f"{other}; name what was with --submission and --problems")
    except (StoreError, InvalidSubmissionError, EvaluationError, ValueError, KeyError, OSError) as error:
        raise failed(f"the counter-example was not run: {words_for(error)}") from error
    try:
        again = replay(job, settings, example)
    except RunFailed as error:
        say(f"the kernel did not answer: {error}")
        raise typer.Exit(1) from error
    say(f"again at index {example['index']}: expected {again.expected}, found {again.found}")
    say(f"the worst error of the output is {again.worst:.3g} times the tolerance")
    if not again.is_wrong:
        say(
            "a single call is right; the recorded error lay in a timed batch"
            if "call" in example
            else "a first call is right; the output may lie in an input's memory, or be an earlier call's"
        )
    raise typer.Exit(0 if again.is_wrong else 1)


def copies_command(
    *,
    submissions: Annotated[Path, typer.Option(help="Folder of the submissions.")] = Path("submissions"),
) -> None:
    """List kernels that entries share, under whatever names. People judge what that means.

    Exit status: 0 none, 1 some, 2 a submission cannot be read.
    """
    from leaderboard.files.submission import InvalidSubmissionError, load
    from leaderboard.runs.copies import copies

    if not submissions.is_dir():
        raise failed(f"--submissions must be the folder of submissions, and there is no folder {submissions}")
    try:
        entries = [load(path) for path in sorted(submissions.glob("*.json"))]
    except (InvalidSubmissionError, OSError) as error:
        raise failed(error) from error
    found = copies((entry.entry, key, text) for entry in entries for key, text in entry.kernels.items())
    for group in found:
        say(", ".join(f"{entry} {key}" for entry, key in group))
    raise typer.Exit(1 if found else 0)


def _judged_by(
    result: ResultFile, submission: Path | None, device: DeviceChoice, engine: str = "local"
) -> tuple[Submission, Settings, Place]:
    """Give what the result's kernels are judged again by; raise where this is not such a place.

    What a CPU judged is judged on one, whatever else is here.
    """
    from kernel_evaluator.problems.jobs import Settings

    from leaderboard.files.submission import load
    from leaderboard.stages.engines import chosen_device, open_place

    entry = load(submission_of(result, submission))
    if entry.entry != result.entry:
        raise ValueError(f"--submission must be {result.entry!r}, whose result this is, got {entry.entry!r}")
    auto = "cpu" if result.gpu == "CPU" else "auto"
    chosen = chosen_device(auto if device is DeviceChoice.AUTO else device.value, engine)
    place = open_place(engine, chosen, gpus=None)
    if place.gpu != result.gpu:
        raise ValueError(
            f"the result is of {result.gpu}, and {chosen} is {place.gpu} here: run this on that device"
        )
    settings = Settings(
        device=chosen,
        sizes=result.sizes,
        precision=result.precision,
        profile=result.profile,
        profile_launches=True,
    )
    return entry, settings, place


def _require_rows(result: ResultFile, keys: Iterable[Any]) -> None:
    missing = set(keys) - {row.key for row in result.rows}
    if missing:
        raise ValueError(f"the result has no row for {min(missing)}")


def _write(out: Path | None, findings: Sequence[JudgedAgain]) -> None:
    """Write what an audit found so far, so that one that is stopped has told it."""
    import json

    from leaderboard.files.store import write_atomically

    if out is not None:
        write_atomically(out, json.dumps([each.to_json() for each in findings], indent=1) + "\n")
