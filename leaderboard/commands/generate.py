"""`kbl generate`: samples a model for kernels into a run folder, continuing what an earlier run left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated

import typer

from leaderboard.commands.options import Only, Problems, finite
from leaderboard.stages.checked import LONGEST_S
from leaderboard.texts.faults import words_for
from leaderboard.texts.inert import one_line
from leaderboard.texts.say import say

TOLD_FROM_S = 10.0
"""Shorter pauses are not told of: servers with many askers send them all the time."""

if TYPE_CHECKING:
    from leaderboard.generate.request import GenerationRequest


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("generate")(generate_command)


def generate_command(  # noqa: PLR0913  # one option a choice
    run_name: Annotated[str, typer.Argument(help="Name of the run; its folder is RUNS/NAME.")],
    *,
    model: Annotated[str, typer.Option(help="The model's name, as its server knows it.")],
    server: Annotated[str, typer.Option(help="A server known by name: openai, anthropic, local, …")] = "",
    base_url: Annotated[str, typer.Option(help="Any other OpenAI-compatible server's base URL.")] = "",
    api_key_env: Annotated[str, typer.Option(help="Variable that holds the key.")] = "",
    level: Annotated[list[int] | None, typer.Option(help="A level; may be repeated.")] = None,
    subset: Annotated[str, typer.Option(help="Only problems A-B of the level, both included: 1-10.")] = "",
    only: Only = "",
    samples: Annotated[int, typer.Option(help="Samples a problem.", min=1, max=100)] = 1,
    backend: Annotated[
        str, typer.Option(help="cuda, triton, gluon, helion, cutile, cute, tilelang, cutlass, …")
    ] = "cuda",
    precision: Annotated[str, typer.Option(help="fp32, fp16 or bf16.")] = "fp32",
    prompt: Annotated[str, typer.Option(help="zero_shot, one_shot or few_shot.")] = "one_shot",
    custom_prompt: Annotated[str, typer.Option(help="A custom prompt of the prompts file.")] = "",
    prompts_file: Annotated[Path | None, typer.Option(help="A prompts file of your own (TOML).")] = None,
    hardware: Annotated[str, typer.Option(help="Tell the model about this device: H100, MI300X, …")] = "",
    temperature: Annotated[float, typer.Option(help="Sampling temperature.", min=0.0, callback=finite)] = 0.0,
    max_tokens: Annotated[int, typer.Option(help="Longest answer; 0 leaves it to the server.", min=0)] = 0,
    parameter: Annotated[list[str] | None, typer.Option(help="More for the request: NAME=JSON.")] = None,
    price: Annotated[str, typer.Option(help="Dollars a million tokens, in and out: 3,15.")] = "",
    turns: Annotated[int, typer.Option(help="Turns with the evaluator's feedback between.", min=1)] = 1,
    regenerations: Annotated[int, typer.Option(help="Repeats after an unusable answer.", min=0)] = 3,
    check: Annotated[bool, typer.Option(help="Have the static checker look at answers.")] = True,
    workers: Annotated[int, typer.Option(help="Requests at a time.", min=1)] = 64,
    interval: Annotated[
        float,
        typer.Option(
            help="Seconds between the starts of two samples.", min=0.0, max=LONGEST_S, callback=finite
        ),
    ] = 0.0,
    timeout: Annotated[
        float, typer.Option(help="Seconds an answer may take.", min=0.1, max=LONGEST_S, callback=finite)
    ] = 600.0,
    attempts: Annotated[int, typer.Option(help="Attempts while the server fails.", min=1)] = 8,
    first_wait: Annotated[
        float,
        typer.Option(
            help="Seconds before the second attempt; doubles up to 60.",
            min=0.0,
            max=LONGEST_S,
            callback=finite,
        ),
    ] = 1.0,
    log_prompts: Annotated[bool, typer.Option(help="Write each prompt beside its kernel.")] = False,
    retry_given_up: Annotated[bool, typer.Option(help="Draw samples again that gave no kernel.")] = False,
    runs: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs"),
    problems: Problems = None,
    engine: Annotated[str, typer.Option(help="With --turns: where kernels are judged.")] = "local",
    device: Annotated[str, typer.Option(help="With --turns: cuda or cpu.")] = "cuda",
) -> None:
    """Sample a model and write one file a kernel; repeat the command to continue.

    Exit status: 0 every sample gave a kernel, 1 some did not, 2 the command cannot start.
    """
    chosen = dict(locals())
    from leaderboard.generate.request import GenerationRequest, parse_subset

    chosen.update(level=level or [], parameter=parameter or [])
    raise typer.Exit(run_request(lambda: GenerationRequest(**{**chosen, "subset": parse_subset(subset)})))


class Waits:
    """Says in a line that a server keeps the run waiting, and says no more until that pause is over."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._until = 0.0
        self._lock = Lock()

    def tell(self, why: str, wait_s: float) -> None:
        """Say it of a pause that one may take for the end."""
        with self._lock:
            if wait_s < TOLD_FROM_S or time.monotonic() < self._until:
                return
            self._until = time.monotonic() + wait_s
        self._write(one_line(f"waiting for {wait_s:.0f} s: {why}", 300))


def run_request(build: Callable[[], GenerationRequest]) -> int:
    """Draw what is missing of a run, with a bar on a terminal; say how it ended and give the exit status."""
    from tqdm import tqdm

    from leaderboard.files.store import StoreError
    from leaderboard.generate.models import ModelError
    from leaderboard.generate.request import describe
    from leaderboard.generate.run import ConfigError
    from leaderboard.stages.engines import EvaluationError

    try:
        request = build()
        generation = request.open()
        with tqdm(total=len(generation.wanted()), unit="sample", disable=None) as bar:
            told = Waits(lambda line: bar.write(line, file=sys.stderr))
            outcome = generation.draw(lambda key: bar.update(), told.tell)
    except (ModelError, ConfigError, EvaluationError, StoreError, ValueError, KeyError, OSError) as error:
        say(f"error: {words_for(error)}", err=True)
        return 2
    except KeyboardInterrupt:
        say("interrupted; what is finished is kept, and the same command continues", err=True)
        return 130
    for line in describe(outcome, request.folder.path):
        say(line)
    return 1 if outcome.given_up or outcome.failed else 0
