"""`kbl baseline`: PyTorch's own times a problem; measures them, and imports published ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leaderboard.commands.ends import failed
from leaderboard.commands.options import DeviceChoice, Gpus, Levels, Only, finite, parse_indices, selection_of
from leaderboard.stages.checked import LONGEST_S, sizes_on
from leaderboard.texts.say import say

if TYPE_CHECKING:
    from kernel_evaluator.baselines import BaselineFile

baseline_app = typer.Typer(no_args_is_help=True, help="PyTorch's own times, for orientation beside results.")


def register(app: typer.Typer) -> None:
    """Add the command with its subcommands."""
    app.add_typer(baseline_app, name="baseline")


@baseline_app.command("import")
def import_command(
    *,
    eager: Annotated[Path | None, typer.Option(help="KernelBench's timing file of plain PyTorch.")] = None,
    compiled: Annotated[Path | None, typer.Option(help="The same of torch.compile.")] = None,
    source: Annotated[str, typer.Option(help="Who measured it, where and how: shown beside the times.")],
    gpu: Annotated[str, typer.Option(help="Board; by default that of the device in the files.")] = "",
    measured_here: Annotated[
        bool, typer.Option("--measured-here", help="The times are this evaluator's own.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder. `baselines/published/times`; `baselines` for the board's own times."),
    ] = None,
) -> None:
    """Turn KernelBench's timing files into a baseline, `<gpu>.json`.

    The files may be published ones, or those that scripts/generate_baseline_time.py has written.

    Exit status: 0 written, 2 a file is broken or names a problem that the set lacks.
    """
    from kernel_evaluator.baselines import BaselineFile, device_of, import_timings
    from kernel_evaluator.machine.figures import gpu_model
    from kernel_evaluator.problems.problem_set import ProblemSet
    from kernel_evaluator.records.rows import Environment

    from leaderboard.files.store import StoreError, read_strictly
    from leaderboard.runs.reading import times_in

    if eager is None and compiled is None:
        raise failed("give --eager, --compiled or both")
    if gpu and not re.fullmatch(r"\w[\w.-]*", gpu):
        raise failed(f"--gpu must be a name such as H100, of letters, digits, '.', '_' and '-', got {gpu!r}")
    given = " and ".join(str(path) for path in (eager, compiled) if path is not None)
    try:
        files = [None if path is None else read_strictly(path) for path in (eager, compiled)]
        device = device_of(*files)
        problem_set = ProblemSet()
        problems, unknown = import_timings(files[0], files[1], problem_set)
        times = [times_in(data, problem_set) for data in files if data is not None]
        told = next((each for each in times if each.ms), times[0])
        if len(precisions := {each.precision for each in times if each.ms}) > 1:
            raise ValueError(f"their times are in {' and '.join(sorted(precisions))}; give files of one")
    except (OSError, StoreError) as error:
        raise failed(error) from error
    except KeyError as error:
        raise failed(f"{given}: a time of KernelBench's has a field {error}, one here lacks it") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise failed(f"{given}: not timing files of KernelBench's: {error}") from error
    if unknown:
        raise failed(f"the problem set lacks {len(unknown)} of the names, first {unknown[0]}")
    model = gpu or told.hardware or gpu_model(device)
    baseline = BaselineFile(
        gpu=model,
        source=source,
        measured_here=measured_here,
        environment=Environment(device=device, gpu=model),
        problems=problems,
        sizes=told.sizes or "full",
        precision=told.precision,
    )
    own = Path("baselines")
    _write(baseline, out or (own if measured_here else own / "published" / "times"))


@baseline_app.command("from-result")
def from_result_command(
    eager: Annotated[Path, typer.Argument(help="Result file of plain PyTorch: pytorch-eager.json.")],
    compiled: Annotated[Path | None, typer.Argument(help="Result file of torch.compile.")] = None,
    *,
    out: Annotated[Path, typer.Option(help="Folder of the baselines, or the file.")] = Path("baselines"),
) -> None:
    """Derive `baselines/<board>.json` from results of the baseline entries, measuring nothing again.

    Exit status: 0 written, 2 a file is broken or the two do not belong together.
    """
    from leaderboard.files.store import StoreError, read_result
    from leaderboard.runs.baseline_runs import baseline_of

    try:
        results = [read_result(path) for path in (eager, compiled) if path is not None]
        baseline = baseline_of(eager=results[:1], compiled=results[1] if compiled else None)
    except (OSError, StoreError, ValueError) as error:
        raise failed(error) from error
    _write(baseline, out)


@baseline_app.command("measure")
def measure_command(
    *,
    device: Annotated[DeviceChoice, typer.Option(help="A CPU takes reduced sizes.")] = DeviceChoice.CUDA,
    gpus: Gpus = "",
    level: Levels = None,
    only: Only = "",
    precision: Annotated[str, typer.Option(help="Of which board: fp32 or bf16.")] = "fp32",
    timeout: Annotated[
        float, typer.Option(help="Seconds a kernel may run.", min=1.0, max=LONGEST_S, callback=finite)
    ] = 300.0,
    work: Annotated[Path, typer.Option(help="Folder of the work files.")] = Path("build/baselines"),
    out: Annotated[Path, typer.Option(help="Folder of the baselines, or the file.")] = Path("baselines"),
) -> None:
    """Time every problem in plain PyTorch and under torch.compile; repeat the command to continue.

    Level 4, which does not rank, is left out unless --level names it.

    Exit status: 0 written, 1 nothing could be measured, 2 the command cannot start, or the file that is there
    has times that these lack.
    """
    from kernel_evaluator.problems.jobs import Settings
    from kernel_evaluator.problems.problem_set import ProblemSet
    from kernel_evaluator.records.rows import BOARD_PRECISIONS

    from leaderboard.files.store import StoreError
    from leaderboard.runs.baseline_runs import BaselineRun
    from leaderboard.stages.engines import EvaluationError, chosen_device, open_place

    try:
        if precision not in BOARD_PRECISIONS:
            raise ValueError(f"--precision must be {' or '.join(BOARD_PRECISIONS)}, got {precision!r}")
        indices = parse_indices(gpus)
        chosen = chosen_device(device.value, gpus=indices)
        run = BaselineRun(
            place=open_place("local", chosen, gpus=indices),
            settings=Settings(
                device=chosen,
                sizes=sizes_on(chosen),
                precision=precision,
                timeout_s=timeout,
            ),
            problem_set=ProblemSet(),
            selection=selection_of(level, only),
            work_root=work,
        )
    except (EvaluationError, ValueError) as error:
        raise failed(error) from error
    try:
        baseline = run.measure(lambda row: say(f"{row.key} {row.status}"))
    except (EvaluationError, StoreError, ValueError) as error:
        raise failed(error, 1) from error
    _write(baseline, out)


@baseline_app.command("show")
def show_command(
    path: Annotated[Path, typer.Argument(help="A file such as baselines/H100.json.")],
) -> None:
    """Print a baseline as a table: milliseconds a call, the median where known."""
    from tabulate import tabulate

    from leaderboard.files.baseline_files import read_baseline
    from leaderboard.files.store import StoreError

    try:
        baseline = read_baseline(path)
    except (OSError, StoreError) as error:
        raise failed(error) from error
    lines = [
        [
            name.replace("_", "/"),
            times.eager.typical if times.eager else None,
            times.compiled.typical if times.compiled else None,
        ]
        for name, times in baseline.problems.items()
    ]
    say(f"{baseline.name}: {baseline.environment.device}; {baseline.source}")
    say(tabulate(lines, headers=["problem", "eager ms", "compiled ms"], missingval="-"))


def _write(baseline: BaselineFile, out: Path) -> None:
    from kernel_evaluator.baselines import dump_baseline

    from leaderboard.files.baseline_files import read_baseline
    from leaderboard.files.store import StoreError, write_atomically

    path = out if out.suffix == ".json" else out / f"{baseline.name}.json"
    try:
        lost = _times_of(read_baseline(path)) - _times_of(baseline) if path.is_file() else ()
    except StoreError as error:
        raise failed(error) from error
    if lost:
        raise failed(
            f"{path} has {len(lost)} times that these lack, {min(lost)} first; "
            "give all at once, or another --out"
        )
    write_atomically(path, dump_baseline(baseline))
    compiled = sum(times.compiled is not None for times in baseline.problems.values())
    device = baseline.environment.device
    say(f"{path}: {len(baseline.problems)} problems on {device}, {compiled} of them compiled")


def _times_of(baseline: BaselineFile) -> set[str]:
    return {
        f"{mode} {name}"
        for name, times in baseline.problems.items()
        for mode, found in (("eager", times.eager), ("compiled", times.compiled))
        if found is not None
    }
