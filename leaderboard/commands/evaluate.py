"""`kbl evaluate`: judges submissions on an engine, continuing what an earlier run left."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leaderboard.commands.ends import failed
from leaderboard.commands.options import (
    DeviceChoice,
    Gpus,
    Levels,
    Only,
    Problems,
    Samples,
    finite,
    parse_indices,
    picked_of,
    problem_set_in,
    require_folder,
    selection_of,
)
from leaderboard.stages.checked import LONGEST_S, ProfileChoice, TimingMethod
from leaderboard.texts.faults import words_for
from leaderboard.texts.say import say

if TYPE_CHECKING:
    from kernel_evaluator.problems.jobs import Settings
    from kernel_evaluator.problems.problem_set import ProblemSet

    from leaderboard.show.progress import Reporter
    from leaderboard.stages.engines import Place
    from leaderboard.stages.evaluate import Evaluation, EvaluationOutcome
    from leaderboard.stages.plan import Selection


class SizeChoice(StrEnum):
    """The sizes of the problems. `auto` takes full sizes on a GPU and reduced ones on a CPU."""

    AUTO = "auto"
    FULL = "full"
    REDUCED = "reduced"


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest:
    """The command's choices, the same for every file."""

    settings: Settings
    problem_set: ProblemSet
    selection: Selection
    again: bool
    place: Place
    reporter: Reporter
    data: Path
    work_root: Path


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate")(evaluate_command)


def evaluate_command(  # noqa: PLR0913  # one option a choice
    paths: Annotated[list[Path], typer.Argument(help="Submission files.")],
    *,
    engine: Annotated[str, typer.Option(help="Where kernels run: local, modal or ray.")] = "local",
    device: Annotated[DeviceChoice, typer.Option(help="What they run on.")] = DeviceChoice.AUTO,
    sizes: Annotated[SizeChoice, typer.Option(help="Sizes of the problems.")] = SizeChoice.AUTO,
    profile: Annotated[ProfileChoice, typer.Option(help="Whose rules.")] = ProfileChoice.RANKED,
    timing_method: Annotated[
        TimingMethod, typer.Option(help="The clock of the profile compat; ranked has its own.")
    ] = TimingMethod.CUDA_EVENT,
    problems: Problems = None,
    level: Levels = None,
    only: Only = "",
    sample: Samples = None,
    again: Annotated[
        bool, typer.Option("--again", help="Judge what is chosen once more, whatever its verdict was.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(help="Seconds a kernel may run.", min=1.0, max=LONGEST_S, callback=finite)
    ] = 180.0,
    gpus: Gpus = "",
    census: Annotated[
        bool,
        typer.Option("--census", help="On a GPU, label kernels by what they launch: 3 s more a kernel."),
    ] = False,
    data: Annotated[Path, typer.Option(help="Recorded results, reused where still good.")] = Path("data"),
    work: Annotated[Path, typer.Option(help="Folder of the work files.")] = Path("build/evaluations"),
) -> None:
    """Judge submissions and write work files that `kbl record` takes; repeat the command to continue.

    Exit status: 0 every kernel has a verdict, 1 one has none, 2 the command cannot start, or a file cannot be
    read; the others are judged.
    """
    from kernel_evaluator.problems.jobs import Settings

    from leaderboard.show.progress import Reporter
    from leaderboard.stages.engines import EvaluationError, chosen_device, open_place

    if timing_method is not TimingMethod.CUDA_EVENT and profile is ProfileChoice.RANKED:
        say(f"note: --timing-method {timing_method} decides nothing without --profile compat", err=True)
    reporter = Reporter()
    try:
        _require_an_entry_a_file(paths)
        require_folder("--data", data)
        require_folder("--work", work)
        indices = parse_indices(gpus)
        chosen = chosen_device(device.value, engine, indices)
        reduced = sizes is SizeChoice.REDUCED or (sizes is SizeChoice.AUTO and chosen == "cpu")
        request = EvaluationRequest(
            settings=Settings(
                profile=profile.value,
                sizes="reduced" if reduced else "full",
                device=chosen,
                timeout_s=timeout,
                timing_method=timing_method.value,
                profile_launches=census,
            ),
            problem_set=problem_set_in(problems),
            selection=selection_of(level, only, sample),
            again=again,
            place=open_place(engine, chosen, gpus=indices, progress=reporter.event),
            reporter=reporter,
            data=data,
            work_root=work,
        )
    except (EvaluationError, ValueError, OSError) as error:
        raise failed(error) from error
    raise typer.Exit(max(_evaluate_one(path, request) for path in paths))


def _require_an_entry_a_file(paths: Sequence[Path]) -> None:
    """Raise ValueError where two files are of one name, since one's verdicts would replace the other's."""
    first: dict[str, Path] = {}
    for path in paths:
        other = first.setdefault(path.name, path)
        if other.absolute() != path.absolute():
            raise ValueError(
                f"{other} and {path} are both the entry {path.stem}, whose verdicts lie in one file; "
                "evaluate one of them, or each with a --work of its own"
            )


def _evaluate_one(path: Path, request: EvaluationRequest) -> int:
    """Judge one file; give the exit status."""
    from leaderboard.files import submission
    from leaderboard.files.store import StoreError
    from leaderboard.stages.engines import EvaluationError, made_for_gpus
    from leaderboard.stages.evaluate import Evaluation, load_problems

    try:
        loaded = submission.load(path)
        known = load_problems(request.problem_set, loaded.kernels, request.settings.sizes)
        evaluation = Evaluation(
            submission=loaded,
            problems=known,
            settings=replace(request.settings, precision=loaded.precision),
            gpu=request.place.gpu,
            selection=request.selection,
            again=request.again,
            recorded=request.data,
            work_root=request.work_root,
        )
        picked = picked_of(loaded.kernels, request.selection)
        if request.settings.device == "cpu" and (found := made_for_gpus(picked.values())):
            said = ", ".join(f"{count} {language}" for language, count in found.most_common())
            say(f"note: on a CPU these kernels fail, since they are made for a GPU: {said}", err=True)
        outcome = _run(evaluation, request)
    except KeyboardInterrupt:
        say("interrupted; what is finished is kept, and the same command continues", err=True)
        raise typer.Exit(130) from None
    except (ValueError, EvaluationError, StoreError, OSError) as error:
        say(f"error: {words_for(error, path)}", err=True)
        return 1 if isinstance(error, EvaluationError) else 2
    return 0 if _report(outcome, path, request) else 1


def _run(evaluation: Evaluation, request: EvaluationRequest) -> EvaluationOutcome:
    from leaderboard.stages.evaluate import evaluate

    with request.reporter.over(len(evaluation.plan(evaluation.previous()).jobs)):
        return evaluate(evaluation, request.place.engine, request.reporter.show)


def _report(outcome: EvaluationOutcome, submission: Path, request: EvaluationRequest) -> bool:
    for message in outcome.plan.missing_problems:
        say(f"warning: {message}", err=True)
    counts = Counter(row.status for row in outcome.result.rows)
    said = ", ".join(f"{count} {status}" for status, count in counts.most_common()) or "no rows"
    say(
        f"{outcome.result.entry} on {outcome.result.board}: {outcome.judged} judged now, "
        f"{outcome.plan.good} still good; in all {said}"
    )
    say(f"written to {outcome.path}")
    own_problems = _own_problems(request)
    _tell_what_next(outcome, submission, request, own_problems)
    if waiting := outcome.waiting:
        some = f"{waiting[0]}" + (", …" if len(waiting) > 1 else "")
        said = f"{len(waiting)} ({some}); run it again"
        say(f"error: kernels still to judge, or to judge a second time: {said}", err=True)
    elif outcome.result.profile == "ranked" and not own_problems:
        apart = [] if submission.parent == Path("submissions") else ["--submission", submission]
        say(f"next: {_command('record', outcome.path, *apart)}")
    return not waiting and not outcome.plan.missing_problems


def _tell_what_next(
    outcome: EvaluationOutcome, submission: Path, request: EvaluationRequest, own_problems: list[Path | str]
) -> None:
    """Name the commands that show why a kernel failed, and that judge once more what is in quarantine."""
    from kernel_evaluator.records.rows import Status

    from leaderboard.stages.evaluate import WORK_ROOT

    failed = [row.key for row in outcome.result.rows if row.failure and row.status is not Status.INFRA_ERROR]
    if failed:
        say(f"why: {_command('replay', outcome.path, failed[0], '--submission', submission, *own_problems)}")
    odd = sorted(
        {
            (row.key.level, row.key.problem_id)
            for row in outcome.result.rows
            if row.status is Status.QUARANTINED
        }
    )
    if odd:
        only = ",".join(f"{level}/{problem}" for level, problem in odd)
        where = ["--device", "cpu"] if request.settings.device == "cpu" else []
        work = ["--work", request.work_root] if request.work_root != WORK_ROOT else []
        say("in quarantine, for a person to look at; once more:")
        again = _command("evaluate", submission, "--again", "--only", only, *where, *own_problems, *work)
        say(f"    {again}")


def _own_problems(request: EvaluationRequest) -> list[Path | str]:
    """The option that names the problems, where they are not the board's: whose rows no board takes."""
    from leaderboard.stages.evaluate import is_the_boards

    root = request.problem_set.root
    return [] if is_the_boards(root) else ["--problems", root]


def _command(*words: object) -> str:
    """Write a command as a shell takes it, whatever its files are called."""
    return shlex.join(["kbl", *map(str, words)])
