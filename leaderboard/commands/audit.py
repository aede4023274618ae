"""`kbl audit`, `kbl replay`, `kbl certify`, `kbl copies`: second looks at rows, evidence, problems, texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leaderboard.commands.evaluate import Device, selection_of

if TYPE_CHECKING:
    from kernelbench.jobs import Settings
    from kernelbench.problems import Problem
    from kernelbench.rows import ResultFile

    from leaderboard.audit import Finding
    from leaderboard.submission import Submission

_Result = Annotated[Path, typer.Argument(help="Result file under data/results/.")]
_Entry = Annotated[Path | None, typer.Option("--submission", help="Its submission; by its entry's name.")]
_Device = Annotated[Device, typer.Option(help="What to run on.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("audit")(audit_command)
    app.command("replay")(replay_command)
    app.command("certify")(certify_command)
    app.command("copies")(copies_command)


def audit_command(
    result: _Result,
    *,
    submission: _Entry = None,
    keys: Annotated[str, typer.Option(help="These kernels, separated by commas.")] = "",
    top: Annotated[int, typer.Option(help="Else all in quarantine and so many of the fastest.")] = 10,
    device: _Device = Device.AUTO,
    out: Annotated[Path | None, typer.Option(help="Write what was found as JSON.")] = None,
) -> None:
    """Judge recorded kernels again, in fresh processes and with new seeds, and compare.

    Exit status: 0 every row holds, 1 one does not, 2 the audit cannot start.
    """
    from kernelbench.engines.local import LocalEngine
    from kernelbench.keys import KernelKey

    from leaderboard.audit import audit, choose, jobs_for
    from leaderboard.evaluate import EvaluationError, load_problems
    from leaderboard.store import StoreError
    from leaderboard.submission import InvalidSubmissionError

    try:
        recorded, entry, settings = _recorded(result, submission, device)
        chosen = [KernelKey.parse(key) for key in keys.split(",")] if keys else choose(recorded, top)
        _require_rows(recorded, chosen)
        jobs = jobs_for(chosen, entry.kernels, load_problems(_problem_set(), chosen, recorded.sizes))
        if out is not None and out.is_dir():
            raise ValueError(f"--out must be a file, {out} is a folder")
        findings: list[Finding] = []
        _write(out, findings)  # what cannot be written is better known before than after
    except (StoreError, InvalidSubmissionError, EvaluationError, ValueError, KeyError, OSError) as error:
        raise _failed(error) from error
    for finding in audit(recorded, jobs, LocalEngine(), settings):
        findings.append(finding)
        typer.echo(f"{finding.before.key}: {finding.differs or 'holds'}")
        _write(out, findings)
    held = len(findings) == len(jobs) and not any(each.differs for each in findings)
    typer.echo(f"{sum(not each.differs for each in findings)} of {len(jobs)} rows hold")
    raise typer.Exit(0 if held else 1)


def replay_command(
    result: _Result,
    key: Annotated[str, typer.Argument(help="The kernel: level_1_problem_19_sample_0.")],
    *,
    submission: _Entry = None,
    device: _Device = Device.AUTO,
) -> None:
    """Show the log and the evidence behind a row, and run its counter-example once more.

    Exit status: 0 it is wrong again, 1 it is not, or there is no counter-example, 2 the command cannot start.
    """
    import json

    from kernelbench.keys import KernelKey
    from kernelbench.processes import RunFailed
    from kernelbench.replay import replay

    from leaderboard.audit import jobs_for
    from leaderboard.evaluate import EvaluationError, load_problems
    from leaderboard.inert import log_text
    from leaderboard.store import StoreError
    from leaderboard.submission import InvalidSubmissionError

    try:
        recorded, entry, settings = _recorded(result, submission, device)
        wanted = KernelKey.parse(key)
        _require_rows(recorded, [wanted])
        problems = load_problems(_problem_set(), [wanted], recorded.sizes)
        job = jobs_for([wanted], entry.kernels, problems)[0]
    except (StoreError, InvalidSubmissionError, EvaluationError, ValueError, KeyError, OSError) as error:
        raise _failed(error) from error
    row = next(row for row in recorded.rows if row.key == wanted)
    typer.echo(
        f"{key} is {row.status}: {row.failure.message if row.failure else 'nothing is held against it'}"
    )
    if row.failure and row.failure.log:
        typer.echo(log_text(row.failure.log))
    if row.evidence:
        typer.echo(json.dumps(row.evidence, indent=1))
    example: dict[str, Any] | None = (row.evidence or {}).get("counter_example")
    if example is None:
        typer.echo("there is no counter-example to run; kbl audit judges the kernel again")
        raise typer.Exit(1)
    try:
        again = replay(job, settings, example)
    except RunFailed as error:
        typer.echo(f"the kernel did not answer: {error}")
        raise typer.Exit(1) from error
    typer.echo(f"again at index {example['index']}: expected {again.expected}, found {again.found}")
    typer.echo(f"the worst error of the output is {again.worst:.3g} times the tolerance")
    if not again.is_wrong and "call" in example:
        typer.echo("a single call is right; the recorded error lay in a timed batch")
    raise typer.Exit(0 if again.is_wrong else 1)


def certify_command(
    *,
    device: _Device = Device.AUTO,
    out: Annotated[Path | None, typer.Option(help="The file; read first, and continued.")] = None,
    precision: Annotated[list[str] | None, typer.Option(help="fp32, fp16 or bf16; may be repeated.")] = None,
    level: Annotated[list[int] | None, typer.Option(help="Only this level; may be repeated.")] = None,
    only: Annotated[str, typer.Option(help="Only these problems: 1/19,2/40.")] = "",
    limit_s: Annotated[float, typer.Option(help="Stop after so many seconds; run again to go on.")] = 1e9,
    fresh: Annotated[bool, typer.Option(help="Leave out what the file says already.")] = False,
) -> None:
    """Try answers that skip the work against every problem, and write which ones can be ranked.

    Exit status: 0 all chosen problems are certified, 1 some are left.
    """
    from kernelbench import certify

    from leaderboard.evaluate import EvaluationError, chosen_device, open_place

    where = chosen_device(device.value)
    path = out or certify.CERTIFICATES
    precisions = precision or ["fp32"]
    unknown = [name for name in precisions if name not in certify.PRECISIONS]
    if unknown:
        raise _failed(
            ValueError(f"--precision must be one of {sorted(certify.PRECISIONS)}, got {unknown[0]!r}")
        )
    try:
        open_place("local", where, gpus=None)
        problems = _chosen_problems(where, selection_of(level, only, None))
    except (EvaluationError, ValueError) as error:
        raise _failed(error) from error
    entries = {} if fresh else certify.read(path)
    for key, name, found in certify.certify(problems, where, precisions, entries, limit_s):
        held = {**entries.get(key, {}).get("precisions", {}), **certify.entry({name: found})["precisions"]}
        entries[key] = {**held.get("fp32", held[name]), "precisions": held}
        certify.write(path, _source(where), entries)
        if isinstance(found, str) or found.evidence:
            typer.echo(f"{key} {name}: {found if isinstance(found, str) else found.evidence}")
    left = sum(
        name not in entries.get(_key(p), {}).get("precisions", {}) for p in problems for name in precisions
    )
    typer.echo(f"{len(entries)} problems are certified in {path}; {left} are left")
    raise typer.Exit(1 if left else 0)


def copies_command(
    *,
    submissions: Annotated[Path, typer.Option(help="Folder of the submissions.")] = Path("submissions"),
) -> None:
    """List kernels that entries share, under whatever names. People judge what that means.

    Exit status: 0 none, 1 some, 2 a submission cannot be read.
    """
    from leaderboard.audit import copies
    from leaderboard.submission import InvalidSubmissionError, load

    if not submissions.is_dir():
        raise _failed(ValueError(f"--submissions must be a folder, got {submissions}"))
    try:
        entries = [load(path) for path in sorted(submissions.glob("*.json"))]
    except (InvalidSubmissionError, OSError) as error:
        raise _failed(error) from error
    found = copies((entry.entry, key, text) for entry in entries for key, text in entry.kernels.items())
    for group in found:
        typer.echo(", ".join(f"{entry} {key}" for entry, key in group))
    raise typer.Exit(1 if found else 0)


def _key(problem: Problem) -> str:
    return f"{problem.level}_{problem.problem_id}"


def _chosen_problems(device: str, selection: Any) -> list[Problem]:
    from kernelbench.keys import RANKED_LEVELS
    from kernelbench.problems import read_sizes

    sizes = read_sizes() if device == "cpu" else {}
    return [
        problem.reduced(sizes)
        for problem in _problem_set()
        if problem.level in (selection.levels or RANKED_LEVELS)
        and (not selection.problems or (problem.level, problem.problem_id) in selection.problems)
    ]


def _source(device: str) -> dict[str, str]:
    import torch
    from kernelbench.version import evaluator_sha256

    from leaderboard.workfile import utc_now

    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    sizes = "full" if device == "cuda" else "reduced"
    return {
        "device": name,
        "sizes": sizes,
        "torch": torch.__version__,
        "evaluator_sha256": evaluator_sha256(),
        "finished_at": utc_now(),
    }


def _recorded(path: Path, submission: Path | None, device: Device) -> tuple[ResultFile, Submission, Settings]:
    from kernelbench.jobs import Settings

    from leaderboard.evaluate import chosen_device, open_place
    from leaderboard.store import read_result
    from leaderboard.submission import load

    result = read_result(path)
    entry = load(submission or Path("submissions") / f"{result.entry}.json")
    if entry.entry != result.entry:
        raise ValueError(f"--submission must be {result.entry!r}, whose result this is, got {entry.entry!r}")
    chosen = chosen_device(device.value)
    gpu = open_place("local", chosen, gpus=None).gpu
    if gpu != result.gpu:
        raise ValueError(
            f"the result is of {result.gpu}, and {chosen} is {gpu} here: run this on a {result.gpu}"
        )
    settings = Settings(device=chosen, sizes=result.sizes, profile=result.profile, profile_launches=True)
    return result, entry, settings


def _require_rows(result: ResultFile, keys: Iterable[Any]) -> None:
    missing = set(keys) - {row.key for row in result.rows}
    if missing:
        raise ValueError(f"the result has no row for {min(missing)}")


def _problem_set() -> Any:
    from kernelbench.problems import ProblemSet

    return ProblemSet()


def _write(out: Path | None, findings: Sequence[Finding]) -> None:
    """Write what an audit found so far, so that one that is stopped has told it."""
    import json

    from leaderboard.store import write_atomically

    if out is not None:
        write_atomically(out, json.dumps([each.to_json() for each in findings], indent=1) + "\n")


def _failed(error: Exception) -> typer.Exit:
    typer.echo(f"error: {error}", err=True)
    return typer.Exit(2)
