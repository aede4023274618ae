"""`kbl problems`: lists and shows the problem set, and proves it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leaderboard.commands.ends import failed
from leaderboard.commands.options import Levels, Only, picked_problems, problem_set_in
from leaderboard.texts.lists import first_words
from leaderboard.texts.say import say

if TYPE_CHECKING:
    from kernel_evaluator.problems.problem_set import Problem, ProblemSet
    from kernel_evaluator.proofs.check import Check, Finding

problems_app = typer.Typer(no_args_is_help=True, help="List, show and prove the problem set.")

Root = Annotated[
    Path | None, typer.Option(help="Folder with level1/, level2/, …; this project's by default.")
]


def register(app: typer.Typer) -> None:
    """Add the command with its subcommands."""
    app.add_typer(problems_app, name="problems")


@problems_app.command("list")
def list_command(*, root: Root = None, level: Levels = None, only: Only = "") -> None:
    """List problems: place, name and the start of the digest that results carry.

    The version and digest of the whole set go to standard error.
    """
    from kernel_evaluator.problems.problem_set import SET_VERSION

    try:
        whole = problem_set_in(root)
        chosen = picked_problems(root, level, only)
    except (OSError, ValueError) as error:
        raise failed(error) from error
    version = f"KernelBench {SET_VERSION}" if root is None else str(root)
    say(f"{version}: {len(list(whole))} problems, digest {whole.sha256()[:12]}", err=True)
    for problem in chosen:
        say(f"{problem.level}/{problem.problem_id}\t{problem.name}\t{problem.sha256[:12]}")


@problems_app.command("show")
def show_command(
    place: Annotated[str, typer.Argument(help="1/19, or a name such as 19_ReLU.")],
    *,
    root: Root = None,
    reduced: Annotated[bool, typer.Option("--reduced", help="At the size a CPU can run.")] = False,
) -> None:
    """Print the source of one problem."""
    from kernel_evaluator.problems.problem_set import read_sizes

    from leaderboard.stages.plan import parse_problem_list

    try:
        problem_set = problem_set_in(root)
        if place.replace("/", "").isdecimal():
            (key,) = parse_problem_list(place)
            problem = problem_set.load(*key)
        else:
            problem = problem_set.find(place)
    except KeyError as error:
        raise failed(f"{error.args[0]}; {_nearest(place, problem_set)}") from error
    except (OSError, ValueError) as error:
        raise failed(error) from error
    say((problem.reduced(read_sizes()) if reduced else problem).sized_source, nl=False)


@problems_app.command("check")
def check_command(  # noqa: PLR0913  # one option a choice
    *,
    root: Root = None,
    against: Annotated[
        Path | None, typer.Option(help="Another folder of the layout, to prove equal to.")
    ] = None,
    level: Levels = None,
    only: Only = "",
    jobs: Annotated[int, typer.Option(help="Problems at once, on the CPU.", min=1)] = 1,
    device: Annotated[str, typer.Option(help="cpu proves values; cuda sees that problems run.")] = "cpu",
    sizes: Annotated[str, typer.Option(help="auto, full or reduced; auto reduces on the CPU.")] = "auto",
    prove: Annotated[
        bool, typer.Option("--prove", help="Keep the digests of what holds in KernelBench/proven.json.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write what was found as JSON.")] = None,
) -> None:
    """Prove problems: on the CPU their weights, inputs and outputs; on a GPU that full sizes run.

    On the CPU sizes are reduced, and shapes are also checked at full size without memory for them.
    With --device cuda or --sizes full each problem runs once, and time and peak memory are shown.
    Exit status: 0 all hold, 1 one does not, 2 the command cannot start.
    """
    from kernel_evaluator.machine.extras import require

    from leaderboard.stages.engines import visible_gpus

    if device not in ("cpu", "cuda") or sizes not in ("auto", "full", "reduced"):
        raise failed("--device must be cpu or cuda, --sizes auto, full or reduced")
    if prove and (root or against or device == "cuda" or sizes == "full"):
        words = "--prove keeps what KernelBench's own problems give at reduced sizes on the CPU: "
        raise failed(f"{words}leave --root, --against, --device and --sizes out")
    if against is not None and (device == "cuda" or sizes == "full"):
        raise failed("--against compares at reduced sizes on the CPU: leave --device and --sizes out")
    if device == "cuda" and not visible_gpus():
        raise failed("no GPU found; choose --device cpu")
    require("evaluate", "kbl problems check")
    try:
        problems = picked_problems(root, level, only)
        if device == "cuda" or sizes == "full":
            fine = _check_forward(problems, device, reduced=sizes == "reduced", out=out)
        else:
            findings = _check_values(problems, _check(against), jobs, out)
            fine = all(finding.holds or finding.skipped for finding in findings)
            if prove:
                _keep_proven(problems, findings)
    except (OSError, ValueError) as error:
        raise failed(error) from error
    raise typer.Exit(0 if fine else 1)


@problems_app.command("roofline")
def roofline_command(
    *,
    level: Levels = None,
    only: Only = "",
    gpu: Annotated[str, typer.Option(help="The GPU model whose light speed is shown.")] = "H100",
    write: Annotated[
        bool, typer.Option("--write", help="Keep what is counted in KernelBench/roofline.json.")
    ] = False,
) -> None:
    """Count what problems need as posed: arithmetic by torch's own counter, and the bytes that must move.

    Needs no GPU, and no memory for the problems' sizes. Level 4 is left out.
    """
    from kernel_evaluator.machine.extras import require

    from leaderboard.files.store import write_atomically
    from leaderboard.light.roofline import ROOFLINE, posed, roof_of

    require("evaluate", "kbl problems roofline")
    from kernel_evaluator.machine.figures import gpus

    from leaderboard.light.count import count, dump

    try:
        if gpu not in gpus():
            raise ValueError(f"--gpu must be one of {', '.join(gpus())}; got {gpu!r}")
        problems = [problem for problem in picked_problems(None, level, only) if problem.level < 4]
    except (OSError, ValueError) as error:
        raise failed(error) from error
    counted = {}
    for problem in problems:
        item = counted[f"{problem.level}_{problem.problem_id}"] = count(problem)
        roof = roof_of(item, gpu, "fp32")
        light = f", {roof.light_ms:.4g} ms at light speed on the {gpu}, {roof.bound}-bound" if roof else ""
        moved = item.bytes_moved("fp32") / 1e9
        say(f"{problem.level}/{problem.problem_id}: {item.flops / 1e9:.4g} GFLOP, {moved:.4g} GB{light}")
    if write:
        write_atomically(ROOFLINE, dump({**posed(), **counted}))
        say(f"wrote {ROOFLINE}")


def _nearest(name: str, problem_set: ProblemSet) -> str:
    """Say what may have been meant: names that hold the given one, else those that are spelt most alike."""
    names = [problem.name for problem in problem_set]
    plain = {each.lower(): each for each in names}
    held = [each for low, each in plain.items() if name.lower() in low]
    close = held or [plain[low] for low in get_close_matches(name.lower(), plain, n=3)]
    return f"there is {first_words(close, 3)}" if close else "kbl problems list has all names"


def _check(against: Path | None) -> Check:
    from kernel_evaluator.problems.problem_set import ProblemSet, read_sizes
    from kernel_evaluator.proofs.check import fingerprint_check, twin_check

    if against is None:
        return fingerprint_check(read_sizes())
    return twin_check(list(ProblemSet(against)), read_sizes())


def _check_values(problems: Sequence[Problem], check: Check, jobs: int, out: Path | None) -> list[Finding]:
    from kernel_evaluator.proofs.check import check_all

    findings = []
    for finding in check_all(problems, check, jobs):
        findings.append(finding)
        for line in _said(finding):
            say(line)
    _write(out, (asdict(finding) for finding in findings))
    hold = sum(finding.holds for finding in findings)
    skipped = sum(bool(finding.skipped) for finding in findings)
    say(f"{hold} of {len(findings)} problems hold" + (f", {skipped} were not run" if skipped else ""))
    return findings


def _check_forward(problems: Sequence[Problem], device: str, *, reduced: bool, out: Path | None) -> bool:
    from kernel_evaluator.problems.problem_set import read_sizes
    from kernel_evaluator.proofs.check import read_fingerprints
    from kernel_evaluator.proofs.forward import forward_once

    table, fingerprints = read_sizes(), read_fingerprints()
    forwards: list[dict[str, Any]] = []
    for problem in problems:
        forward = forward_once(problem.reduced(table) if reduced else problem, device)
        facts = {} if reduced else fingerprints.get(forward.problem, {})
        fits = bool(forward.finite) and forward.outputs == facts.get("full_outputs", forward.outputs)
        forwards.append({**asdict(forward), "holds": fits})
        memory = f", {forward.peak_memory_gb} GB" if forward.peak_memory_gb is not None else ""
        found = forward.error or f"{forward.seconds} s{memory}"
        say(f"{forward.problem}: {'holds' if fits else 'does not hold'}: {found}")
        _write(out, forwards)
    fine = sum(item["holds"] for item in forwards)
    say(f"{fine} of {len(problems)} problems hold")
    return bool(fine == len(problems))


def _keep_proven(problems: Sequence[Problem], findings: Sequence[Finding]) -> None:
    from kernel_evaluator.proofs.check import PROVEN, dump_proven, read_proven

    from leaderboard.files.store import write_atomically

    digests = {f"{problem.level}_{problem.problem_id}": problem.sha256 for problem in problems}
    new = {finding.problem: digests[finding.problem] for finding in findings if finding.holds}
    write_atomically(PROVEN, dump_proven({**read_proven(), **new}))


def _said(finding: Finding) -> Iterable[str]:
    if finding.skipped:
        yield f"{finding.problem}: not run: {finding.skipped}"
    for mistake in finding.mistakes:
        yield f"{finding.problem}: {mistake}"


def _write(out: Path | None, values: Iterable[dict[str, Any]]) -> None:
    from leaderboard.files.store import write_atomically

    if out is not None:
        write_atomically(out, json.dumps({"problems": list(values)}, indent=1) + "\n")
