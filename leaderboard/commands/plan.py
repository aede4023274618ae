"""`kbl plan`: what an evaluation would still have to do, without doing it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from leaderboard.commands.ends import failed
from leaderboard.commands.options import (
    Levels,
    Only,
    Problems,
    Samples,
    picked_of,
    problem_set_in,
    require_folder,
    selection_of,
)
from leaderboard.texts.faults import words_for
from leaderboard.texts.say import say


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan")(plan_command)


def plan_command(  # noqa: PLR0913  # one option a choice
    paths: Annotated[list[Path], typer.Argument(help="Submission files.")],
    *,
    gpu: Annotated[str, typer.Option(help="The board, or its GPU model: H100, H100-bf16, CPU.")] = "H100",
    reduced: Annotated[bool, typer.Option("--reduced", help="Reduced sizes, as on a CPU.")] = False,
    problems: Problems = None,
    level: Levels = None,
    only: Only = "",
    sample: Samples = None,
    data: Annotated[Path, typer.Option(help="Recorded results, reused where still good.")] = Path("data"),
    work: Annotated[Path, typer.Option(help="Folder of the work files.")] = Path("build/evaluations"),
) -> None:
    """List the kernels that `kbl evaluate` would judge: those without a row that is still good.

    Exit status: 0 listed, 1 a file names an unknown problem, 2 one cannot be read, or has no kernel picked.
    """
    from kernel_evaluator.machine.figures import gpus
    from kernel_evaluator.problems.jobs import Settings

    from leaderboard.files import submission
    from leaderboard.files.store import StoreError
    from leaderboard.stages.evaluate import Evaluation, load_problems

    try:
        require_folder("--data", data)
        require_folder("--work", work)
        if not gpu:
            raise ValueError("--gpu must be a board or a GPU model such as H100, and is empty")
    except ValueError as error:
        raise failed(error) from error
    status = 0
    model = gpu.removesuffix("-reduced")
    sizes: Literal["full", "reduced"] = "reduced" if reduced or model == "CPU" or model != gpu else "full"
    for path in paths:
        try:
            loaded = submission.load(path)
            evaluation = Evaluation(
                submission=loaded,
                problems=load_problems(problem_set_in(problems), loaded.kernels, sizes),
                settings=Settings(sizes=sizes, precision=loaded.precision),
                gpu=_model(model, loaded.precision),
                selection=selection_of(level, only, sample),
                recorded=data,
                work_root=work,
            )
            picked_of(loaded.kernels, evaluation.selection)
            plan = evaluation.plan(evaluation.previous())
        except (submission.InvalidSubmissionError, StoreError, ValueError, OSError) as error:
            say(f"error: {words_for(error, path)}", err=True)
            status = 2
            continue
        for job in plan.jobs:
            say(f"{job.key} {job.problem.name}")
        for message in plan.missing_problems:
            say(f"warning: {message}", err=True)
        status = max(status, 1 if plan.missing_problems else 0)
        again = f", {len(plan.unconfirmed)} of them to judge a second time" if plan.unconfirmed else ""
        if evaluation.gpu not in ("CPU", *gpus()) and not plan.good:
            known = ", ".join(("CPU", *gpus()))
            say(f"warning: no GPU {evaluation.gpu} is known here, nor rows of it; known: {known}", err=True)
        say(f"{path}: {len(plan.jobs)} to judge on {evaluation.blank.board}, {plan.good} still good{again}")
    raise typer.Exit(status)


def _model(board: str, precision: str) -> str:
    """Give the GPU model of a board, whose name may end with the submission's precision and no other."""
    from kernel_evaluator.machine.figures import Precision

    for name in get_args(Precision):
        if board.endswith(f"-{name}") and name != precision:
            raise ValueError(f"--gpu {board} is a board for {name}, and the submission is in {precision}")
    return board.removesuffix(f"-{precision}")
