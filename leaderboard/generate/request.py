"""What a person asks of `generate`, in plain values, turned into a run that is ready to start.

The one place where names (of servers, backends, devices, problems) become objects.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kernel_evaluator.machine.extras import require
from kernel_evaluator.problems.jobs import Job, Settings
from kernel_evaluator.records.places import PROBLEM_SET
from kernel_evaluator.records.rows import Row
from kernel_evaluator.upstream.files import RunFolder

from leaderboard.files.run_names import plain_run_name
from leaderboard.generate.models import (
    SERVERS,
    LiteLLMModel,
    Model,
    OpenAIModel,
    TokenPrice,
    api_key,
    import_litellm,
    plain_name,
)
from leaderboard.generate.patience import Patience
from leaderboard.generate.run import Generation, GenerationOptions, GenerationOutcome, Judge, Problems
from leaderboard.prompts import PROMPTS_TOML, PromptOptions
from leaderboard.stages.checked import AnySet, checked_problem, reductions, sizes_on
from leaderboard.stages.plan import parse_problem_list
from leaderboard.texts.lists import counted

_OWN_OPTIONS = {
    "api_key": "what is recorded must hold no key; the environment does",
    "messages": "--prompt and --prompts-file say what the model is shown",
    "model": "--model names it",
    "n": "--samples draws several answers",
    "stream": "an answer is read whole",
}
"""Fields of a request that are no parameters of the model, and what serves instead."""

_USER = re.compile(r"//[^/]*@")
"""The name and password that an address may begin with."""


@dataclass(frozen=True, kw_only=True)
class GenerationRequest:
    """The options of one run, as `kbl generate` and `scripts/generate_samples.py` take them."""

    run_name: str
    model: str
    server: str = ""
    base_url: str = ""
    api_key_env: str = ""
    level: Sequence[int] = ()
    subset: tuple[int | None, int | None] = (None, None)
    only: str = ""
    samples: int = 1
    backend: str = "cuda"
    precision: str = "fp32"
    prompt: str = "one_shot"
    custom_prompt: str = ""
    prompts_file: Path | None = None
    hardware: str = ""
    temperature: float | None = 0.0
    max_tokens: int = 0
    parameter: Sequence[str] = ()
    price: str = ""
    turns: int = 1
    regenerations: int = 3
    check: bool = True
    workers: int = 64
    interval: float = 0.0
    timeout: float = 600.0
    attempts: int = 8
    first_wait: float = 1.0
    log_prompts: bool = False
    retry_given_up: bool = False
    runs: Path = Path("runs")
    problems: Path | None = None
    engine: str = "local"
    device: str = "cuda"

    @property
    def folder(self) -> RunFolder:
        """The run's folder. Raises ValueError where the name would lead out of the runs' folder."""
        return RunFolder(path=self.runs / plain_run_name(self.run_name))

    def open(self, judge: Judge | None = None) -> Generation:
        """Give the run, ready to draw; several turns open the engine asked for unless a judge is given.

        Raises ValueError, ModelError or EvaluationError for a wrong option, MissingExtraError where what it
        needs is not installed.
        """
        require("generate", "sampling a model")
        folder = self.folder
        prompt = PromptOptions(
            backend=self.backend,
            option=self.prompt,
            precision=self.precision,
            gpu_name=self.hardware or None,
            custom=self.custom_prompt or None,
            prompts_toml=self.prompts_file or PROMPTS_TOML,
        )
        prompt.render("")  # a wrong backend, option or device is said before anything is asked
        parameters = self._parameters()
        options = GenerationOptions(
            prompt=prompt,
            recorded={
                "model_name": self.model,
                "server_type": self.server or _USER.sub("//", self.base_url),
                **parameters,
            },
            samples=self.samples,
            turns=self.turns,
            regenerations=self.regenerations,
            check_kernel=self.check,
            workers=self.workers,
            interval_s=self.interval,
            log_prompts=self.log_prompts,
            retry_given_up=self.retry_given_up,
            patience=Patience(attempts=self.attempts, first_s=self.first_wait),
        )
        if self.turns > 1 and judge is None:
            judge = open_judge(self.engine, self.device, self.precision)
        return Generation(folder, self._problems(), self._model(parameters), options=options, judge=judge)

    def _parameters(self) -> dict[str, Any]:
        parameters: dict[str, Any] = {} if self.temperature is None else {"temperature": self.temperature}
        if self.max_tokens:
            parameters["max_tokens"] = self.max_tokens
        for text in self.parameter:
            name, separator, value = text.partition("=")
            if not separator:
                raise ValueError(f"a parameter must look like NAME=JSON, got {text!r}")
            if name in _OWN_OPTIONS:
                raise ValueError(f"--parameter {name} is none of the model's: {_OWN_OPTIONS[name]}")
            parameters[name] = _json_or_text(value)
            _require_json(f"--parameter {name}", parameters[name])
        _require_json("--temperature", self.temperature)
        return {name: value for name, value in parameters.items() if value is not None}

    def _model(self, parameters: Mapping[str, Any]) -> Model:
        """Choose the way to the model: a base URL, a server known by name, else LiteLLM."""
        price = parse_price(self.price)
        if not self.base_url and self.server not in SERVERS:
            _require_litellm(self.server)
            is_named = not self.server or self.model.startswith(f"{self.server}/")
            name = self.model if is_named else f"{self.server}/{self.model}"
            return LiteLLMModel(name=name, parameters=parameters, timeout_s=self.timeout, price=price)
        known_url, known_variable = SERVERS.get(self.server, ("", "OPENAI_API_KEY"))
        variable = self.api_key_env or known_variable
        if not self.base_url and known_url.startswith("https:") and not api_key(variable):
            raise ValueError(
                f"the server {self.server} needs a key: set {variable}, or name another variable"
            )
        return OpenAIModel(
            name=plain_name(self.model, self.server),
            base_url=_checked_url(self.base_url) if self.base_url else known_url,
            api_key=api_key(variable),
            parameters=parameters,
            timeout_s=self.timeout,
            price=price,
        )

    def _problems(self) -> Problems:
        problem_set = AnySet(self.problems or PROBLEM_SET)
        if any(self.subset) and not self.level:
            raise ValueError(
                "a subset is of a level, and none is given; give --level, or --only in its place"
            )
        low, high = self.subset[0] or 1, self.subset[1] or 1000
        named = set(parse_problem_list(self.only))
        wanted = {(level, i) for level in self.level for i in problem_set.ids(level) if low <= i <= high}
        if any(self.subset) and not wanted:
            raise ValueError(f"--subset {low}-{high} holds no problem of the level; name one like 1-10")
        wanted = wanted & named if self.level and named else wanted | named
        if not wanted and not named:
            raise ValueError(
                "no problem is named; give a level, a level and a subset, or a list like 1/19,2/40"
            )
        if not wanted:
            raise ValueError(f"--only {self.only}: none of these is in the level and subset that are given")
        return {key: checked_problem(problem_set.load(*key)) for key in sorted(wanted)}


def _require_litellm(server: str) -> None:
    """Raise MissingExtraError where LiteLLM is missing, ValueError where it does not know the server."""
    known = ", ".join(SERVERS)
    if not server:
        import_litellm("a model without --server or --base-url")
        return
    litellm, _ = import_litellm(f"--server {server}, which is none of those known by name ({known}),")
    if server not in litellm.provider_list:
        raise ValueError(
            f"--server must be one of {known}, or one that LiteLLM knows, got {server!r}; "
            "any other is named by --base-url"
        )


def _checked_url(url: str) -> str:
    """Give a base URL back; raise ValueError where nothing can be asked there, however often it is tried."""
    try:
        parts = urlsplit(url)
        is_fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of brackets that do not match, and of ports that are none
        is_fine = False
    if not is_fine:
        raise ValueError(f"--base-url must look like http://localhost:8000/v1, got {url!r}")
    return url


def parse_subset(text: str) -> tuple[int | None, int | None]:
    """Read `1-10` or `7`: problems of a level, both ends included; nothing means all."""
    low, separator, high = text.partition("-")
    if not text:
        return None, None
    if not (low.isdecimal() and (high.isdecimal() or not separator)):
        raise ValueError(f"a subset must look like 1-10, got {text!r}")
    return int(low), int(high or low)


def parse_price(text: str) -> TokenPrice | None:
    """Read `3,15`: dollars a million tokens, in and out."""
    if not text:
        return None
    try:
        prompt, completion = (float(part) for part in text.split(","))
        if not (0 <= prompt < math.inf and 0 <= completion < math.inf):
            raise ValueError("a price is finite, and at least 0")
    except ValueError as error:
        raise ValueError(f"a price must look like 3,15 (dollars a million tokens), got {text!r}") from error
    return TokenPrice(prompt=prompt, completion=completion)


def open_judge(engine: str, device: str, precision: str) -> Judge:
    """Start the engine that judges between turns, at the sizes that fit the device."""
    from leaderboard.stages.engines import chosen_device, open_place
    from leaderboard.stages.uses import judged

    device = chosen_device(device, engine)
    place = open_place(engine, device)
    settings = Settings(device=device, precision=precision, sizes=sizes_on(device))
    table = reductions(settings.sizes)

    def judge(jobs: Sequence[Job]) -> Iterable[Row]:
        sized = [Job(key=job.key, source=job.source, problem=job.problem.reduced(table)) for job in jobs]
        return (verdict.row for verdict in judged(place.engine, sized, settings))

    return judge


def describe(outcome: GenerationOutcome, path: Path) -> Iterable[str]:
    """Say in lines of text how a run ended."""
    totals = outcome.totals
    yield f"{counted(outcome.finished, 'kernel')} in {path}, {outcome.drawn} of them new"
    cost = f", ${totals.cost_usd:.4f}" if totals.priced else ""
    unpriced = totals.replies - totals.priced
    cost += f" (without {unpriced} answers of unknown price)" if totals.priced and unpriced else ""
    yield (
        f"in all {counted(totals.replies, 'answer')}, {counted(totals.retries, 'repeated request')}, "
        f"{totals.prompt_tokens} tokens in, {totals.completion_tokens} out{cost}"
    )
    for key, reason in outcome.given_up.items():
        yield f"no kernel: {key}: {reason}"
    for key, reason in outcome.failed.items():
        if key not in outcome.given_up:
            yield f"failed: {key}: {reason}"


def _require_json(option: str, value: Any) -> None:
    """Raise ValueError for NaN and Infinity: Python reads them in JSON, and no server takes them."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise ValueError(
            f"{option} must be JSON, which has neither NaN nor Infinity, got {value!r}; "
            "give a finite number, or a text in double quotes"
        ) from error


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value
