"""`kbl serve`: the evaluation server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from leaderboard.commands.evaluate import Device as Choice
from leaderboard.commands.evaluate import parse_indices
from leaderboard.texts.say import say


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve")(serve_command)


def serve_command(  # noqa: PLR0913  # one option a choice
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 8900,
    device: Annotated[
        Choice, typer.Option(help="cuda, cpu, or auto: a GPU where there is one.")
    ] = Choice.AUTO,
    gpus: Annotated[str, typer.Option(help="GPU indices: 0,1. All where left out.")] = "",
    problems: Annotated[Path | None, typer.Option(help="Folder with level1/, level2/, …")] = None,
    max_queued: Annotated[int, typer.Option(help="Judgements that may wait; more get HTTP 429.")] = 1000,
    max_kept: Annotated[int, typer.Option(help="Finished judgements that can be looked up.")] = 10_000,
    max_timeout: Annotated[float, typer.Option(help="Longest time a kernel may ask for, seconds.")] = 600.0,
    batch_size: Annotated[int, typer.Option(help="Judgements one process judges.", min=1, max=100)] = 16,
) -> None:
    """Judge kernels over HTTP. The API key is the variable KBL_API_KEY; docs are at /docs.

    Exit status: 0 stopped, 2 the server cannot start.
    """
    from kernel_evaluator.machine.extras import require
    from kernel_evaluator.problems.problem_set import ProblemSet
    from kernel_evaluator.records.places import PROBLEM_SET

    from leaderboard.serve.workers import KEY_VARIABLE, Device
    from leaderboard.stages.evaluate import EvaluationError, chosen_device, visible_gpus

    api_key = os.environ.get(KEY_VARIABLE, "")
    if not api_key and host not in ("127.0.0.1", "localhost", "::1"):
        raise _failed(f"{KEY_VARIABLE} must be set to listen on {host}: whoever reaches it may run code")
    require("serve", "kbl serve")
    require("evaluate", "kbl serve")
    from leaderboard.serve.app import ServerSettings, make_app
    from leaderboard.serve.connections import serve_until_stopped

    try:
        indices = parse_indices(gpus)
        chosen = chosen_device(device.value, gpus=indices)
        there = range(len(visible_gpus(indices)))
        devices = (
            [Device(name=f"gpu{index}", gpus=(index,)) for index in indices or there]
            if chosen == "cuda"
            else [Device(name="cpu", gpus=None)]
        )
        problem_set = ProblemSet(problems or PROBLEM_SET)
    except (EvaluationError, ValueError, OSError) as error:
        raise _failed(str(error)) from error
    if not devices:
        raise _failed("no GPU found; choose --device cpu")
    settings = ServerSettings(
        device=chosen,
        devices=devices,
        problem_set=problem_set,
        api_key=api_key,
        max_queued=max_queued,
        max_kept=max_kept,
        max_timeout_s=max_timeout,
        batch_size=batch_size,
    )
    serve_until_stopped(make_app(settings), host=host, port=port)


def _failed(message: str) -> typer.Exit:
    say(f"error: {message}", err=True)
    return typer.Exit(2)
