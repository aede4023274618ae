"""`kbl serve`: the evaluation server."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from leaderboard.commands.ends import failed
from leaderboard.commands.options import DeviceChoice, Gpus, Problems, finite, parse_indices, problem_set_in
from leaderboard.serve import KEY, KEY_VARIABLE
from leaderboard.stages.checked import LONGEST_S, sizes_on
from leaderboard.texts.say import say

MEMORY = Path.home() / ".cache" / "kernel_evaluator" / "verdicts.sqlite"
MAX_IN_FLIGHT = 100
"""Judgements that a cluster gets at once: it has devices for many."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve")(serve_command)


def serve_command(  # noqa: PLR0913  # one option a choice
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 8900,
    device: Annotated[
        DeviceChoice, typer.Option(help="cuda, cpu, or auto: a GPU where there is one.")
    ] = DeviceChoice.AUTO,
    gpus: Gpus = "",
    problems: Problems = None,
    max_queued: Annotated[
        int, typer.Option(help="Judgements that may wait; more get HTTP 429.", min=1)
    ] = 1000,
    max_kept: Annotated[int, typer.Option(help="Finished judgements that can be looked up.", min=1)] = 10_000,
    max_timeout: Annotated[
        float,
        typer.Option(
            help="Longest time a kernel may ask for, seconds.", min=1.0, max=LONGEST_S, callback=finite
        ),
    ] = 600.0,
    batch_size: Annotated[int, typer.Option(help="Judgements a device takes at once.", min=1, max=100)] = 8,
    keys: Annotated[Path | None, typer.Option(help="More keys, with limits for each (TOML).")] = None,
    memory: Annotated[Path, typer.Option(help="File of the verdicts that were reached before.")] = MEMORY,
    memory_gb: Annotated[
        float, typer.Option(help="Its size at most; 0 switches it off.", min=0.0, max=1e6, callback=finite)
    ] = 2.0,
    own_problems: Annotated[
        bool, typer.Option("--own-problems", help="Take problems' sources: their code runs unconfined.")
    ] = False,
    engine: Annotated[str, typer.Option(help="Where kernels run: local, or ray for a cluster.")] = "local",
) -> None:
    """Judge kernels over HTTP. The API key is the variable KBL_API_KEY; docs are at /docs.

    Exit status: 130 or 143 stopped by Ctrl-C or SIGTERM, 2 the server cannot start.
    """
    from kernel_evaluator.machine.extras import require
    from kernel_evaluator.problems.jobs import Settings

    from leaderboard.serve.keys import keyring_of
    from leaderboard.serve.memory import MemoryFileError
    from leaderboard.serve.places import devices_of, place_of
    from leaderboard.stages.engines import EvaluationError, chosen_device

    api_key = os.environ.get(KEY_VARIABLE, "")
    if not (api_key or keys) and host not in ("127.0.0.1", "localhost", "::1"):
        raise failed(f"{KEY_VARIABLE} must be set to listen on {host}: whoever reaches it may run code")
    if own_problems and keys and not api_key:
        raise failed(
            f"--own-problems is for the key of {KEY_VARIABLE}, which is not set; write own_problems = true "
            f"in {keys} for each key that may send problems"
        )
    if not re.fullmatch(KEY, api_key):
        raise failed(
            f"{KEY_VARIABLE} must be of visible ASCII characters without spaces, or no client can send it; "
            "choose another key"
        )
    require("serve", "kbl serve")
    require("evaluate", "kbl serve")
    from leaderboard.serve.app import ServerSettings, make_app
    from leaderboard.serve.connections import AddressError, addresses, listen, serve_until_stopped

    try:
        indices = parse_indices(gpus)
        chosen = chosen_device(device.value, engine, indices)
        settings = ServerSettings(
            device=chosen,
            devices=devices_of(engine, chosen, indices),
            problem_set=problem_set_in(problems),
            keyring=keyring_of(api_key, keys, own_problems=own_problems),
            memory=memory if memory_gb else None,
            memory_bytes=int(memory_gb * 2**30),
            place=place_of(engine, chosen, indices),
            max_queued=max_queued,
            max_kept=max_kept,
            max_timeout_s=max_timeout,
            batch_size=batch_size if engine == "local" else MAX_IN_FLIGHT,
            first=Settings(device=chosen, sizes=sizes_on(chosen), measure=False),
        )
        listeners = listen(host, port)
        app = make_app(settings)
    except (EvaluationError, MemoryFileError, AddressError, ValueError, OSError) as error:
        raise failed(error) from error
    say(f"listening on {', '.join(addresses(listeners))} (Ctrl-C ends it)", err=True)
    serve_until_stopped(app, listeners)
