"""`kbl certify`: which problems can be ranked, and which of their inputs tell shortcuts."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leaderboard.commands.ends import failed
from leaderboard.commands.options import DeviceChoice, Levels, Only, finite, picked_problems
from leaderboard.texts.say import say

if TYPE_CHECKING:
    from kernel_evaluator.problems.problem_set import Problem

_TWINS_S = {"cpu": 3.0, "cuda": 1.5}
"""Seconds for a problem, after which distributions beyond the first few are left out."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("certify")(certify_command)


def certify_command(
    *,
    device: Annotated[DeviceChoice, typer.Option(help="What to run on.")] = DeviceChoice.AUTO,
    out: Annotated[Path | None, typer.Option(help="The file; read first, and continued.")] = None,
    twins: Annotated[Path | None, typer.Option(help="What twins show; read first, and continued.")] = None,
    precision: Annotated[str, typer.Option(help="Of which boards: fp32 or bf16.")] = "fp32",
    level: Levels = None,
    only: Only = "",
    limit_s: Annotated[
        float,
        typer.Option(help="Stop after so many seconds; run again to go on.", min=0.0, callback=finite),
    ] = 1e9,
    fresh: Annotated[bool, typer.Option(help="Try the chosen problems anew, whatever is known.")] = False,
) -> None:
    """Try answers that skip the work, and cheaper twins of the reference, against every problem.

    Writes which problems can be ranked, and which inputs tell the twins from the reference. Level 4, which
    does not rank, is left out unless --level names it.
    Exit status: 0 all chosen problems are certified, 1 some are left, 2 the command cannot start.
    """
    from kernel_evaluator.machine.extras import require
    from kernel_evaluator.problems import certificates, deciding
    from kernel_evaluator.problems.certificates import path_for
    from kernel_evaluator.problems.deciding import sharpness_of
    from kernel_evaluator.records.rows import BOARD_PRECISIONS

    from leaderboard.stages.engines import EvaluationError, chosen_device, open_place

    require("evaluate", "kbl certify")
    where = chosen_device(device.value)
    if precision not in BOARD_PRECISIONS:
        raise failed(f"--precision must be {' or '.join(BOARD_PRECISIONS)}, got {precision!r}")
    try:
        open_place("local", where, gpus=None)
        problems = _problems_for(where, level, only)
    except (EvaluationError, ValueError) as error:
        raise failed(error) from error
    deadline = time.monotonic() + limit_s
    answers, seen = out or path_for(precision), twins or sharpness_of(precision)
    _require_ours(answers, lambda: {**certificates.read(answers)})
    _require_ours(seen, lambda: {**deciding.read(seen)["problems"]})
    left = _try_answers(problems, where, precision, answers, deadline, fresh=fresh)
    left += _try_twins(problems, where, precision, seen, deadline, fresh=fresh)
    raise typer.Exit(1 if left else 0)


def _try_answers(
    problems: list[Problem], where: str, precision: str, path: Path, deadline: float, *, fresh: bool
) -> int:
    """Certify by null answers what is not certified yet; say how many are left."""
    from kernel_evaluator.problems.certificates import read
    from kernel_evaluator.proofs import certify

    chosen = {_key(p) for p in problems} if fresh else set()
    entries = {key: facts for key, facts in read(path).items() if key not in chosen}
    limit_s = deadline - time.monotonic()
    for key, found in certify.certify(problems, where, precision, entries, limit_s):
        if where == "cuda" or not isinstance(found, str):  # what a CPU cannot run, a GPU may
            entries[key] = certify.entry(precision, found)
            certify.write(path, _source(where), entries)
        if isinstance(found, str) or found.evidence:
            say(f"{key} {precision}: {found if isinstance(found, str) else found.evidence}")
    left = sum(precision not in entries.get(_key(p), {}).get("precisions", {}) for p in problems)
    say(f"{len(entries)} problems are certified in {path}; {left} are left")
    return left


def _try_twins(
    problems: list[Problem], where: str, precision: str, path: Path, deadline: float, *, fresh: bool
) -> int:
    """See which inputs tell twins, for the problems that were not looked at so; say how many are left."""
    from kernel_evaluator.problems import deciding
    from kernel_evaluator.proofs import sharpness

    held = deciding.read(path)
    source = _source(where)
    known = held["problems"].setdefault(source["sizes"], {})
    for problem in problems if fresh else ():
        known.pop(_key(problem), None)
    limit_s = deadline - time.monotonic()
    for key, entry in sharpness.survey(problems, where, precision, known, limit_s, _TWINS_S[where]):
        known[key] = entry
        held["source"][source["sizes"]] = source
        sharpness.write(path, held)
        say(f"{key}: {_told(entry)}")
    left = sum(not sharpness.is_current(problem, known.get(_key(problem))) for problem in problems)
    say(f"{len(problems) - left} of {len(problems)} problems were tried by twins in {path}")
    return left


def _require_ours(path: Path, read: Callable[[], object]) -> None:
    try:
        read()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        told = f"{path}: no file that kbl certify wrote: {why}; mend it, or name another"
        raise failed(told) from error


def _told(entry: dict[str, Any]) -> str:
    """What a problem's entry says, in a line."""
    from kernel_evaluator.problems import deciding

    if "error" in entry:
        return str(entry["error"])
    deal = deciding.deal_of(entry)
    blunt = f"; never caught: {', '.join(deal.blunt)}" if deal.blunt else ""
    return f"{deal.undecided or 'decided by ' + ', '.join(deal.shares)}{blunt}"


def _key(problem: Problem) -> str:
    return f"{problem.level}_{problem.problem_id}"


def _problems_for(device: str, level: list[int] | None, only: str) -> list[Problem]:
    from kernel_evaluator.records.keys import RANKED_LEVELS

    from leaderboard.stages.checked import reductions, sizes_on

    table = reductions(sizes_on(device))
    return [each.reduced(table) for each in picked_problems(None, level or RANKED_LEVELS, only)]


def _source(device: str) -> dict[str, str]:
    import torch
    from kernel_evaluator.records.version import evaluator_sha256

    from leaderboard.files.workfile import utc_now
    from leaderboard.stages.checked import sizes_on

    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    return {
        "device": name,
        "sizes": sizes_on(device),
        "torch": torch.__version__,
        "evaluator_sha256": evaluator_sha256(),
        "finished_at": utc_now(),
    }
