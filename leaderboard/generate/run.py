"""A whole run: which samples are still wanted, in parallel, turn by turn, into a run folder.

One kernel is one file, written whole or not at all: that file says the sample is finished, so a run that was
killed continues where it stopped and draws no finished sample again.
"""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from kernel_evaluator.problems.jobs import Job
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Row, Status
from kernel_evaluator.upstream.files import RunFolder, write_text

from leaderboard.files import store
from leaderboard.generate.journal import Journal, Totals
from leaderboard.generate.looking import Looking
from leaderboard.generate.models import Message, Model, ModelError
from leaderboard.generate.patience import OnWait, Patience
from leaderboard.generate.pool import Pool
from leaderboard.generate.replies import Replies
from leaderboard.generate.sampling import NoKernelError, Sampler
from leaderboard.generate.turns import Turn, TurnFile, best_turn, conversation
from leaderboard.prompts import PromptOptions
from leaderboard.prompts.shown import shown

Problems = Mapping[tuple[int, int], Problem]
Judge = Callable[[Sequence[Job]], Iterable[Row]]
"""Judges kernels between turns: `evaluate` on an engine, with settings already chosen."""
OnSample = Callable[[KernelKey], object]
"""Called after each answer that is kept."""

LONGEST_WAIT_S = 0.5
PARTING_S = 2.0
"""Seconds in which an interrupted run makes kernels of the answers that are there; it waits for no others."""
_OF_THE_SERVER = ("model_name", "server_type")


class ConfigError(Exception):
    """The run folder holds samples of other options. The message says which differ."""


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """How samples are drawn. `recorded` is what of the model goes into `generation_config.yaml`."""

    prompt: PromptOptions = field(default_factory=PromptOptions)
    recorded: Mapping[str, Any] = field(default_factory=dict)
    samples: int = 1
    turns: int = 1
    regenerations: int = 3
    check_kernel: bool = True
    workers: int = 64
    interval_s: float = 0.0
    log_prompts: bool = False
    retry_given_up: bool = False
    patience: Patience = field(default_factory=Patience)

    def config(self) -> dict[str, Any]:
        """Give the options for the record. All but the number of samples decide what a sample is."""
        return {
            **self.recorded,
            "backend": self.prompt.backend,
            "precision": self.prompt.precision or "fp32",
            "prompt_option": self.prompt.option,
            "custom_prompt_key": self.prompt.custom,
            "include_hardware_info": self.prompt.gpu_name is not None,
            "hardware_gpu_name": self.prompt.gpu_name,
            "prompts_sha256": self.prompt.own_sha256,
            "check_kernel": self.check_kernel,
            "regenerations": self.regenerations,
            "turns": self.turns,
            "num_samples": self.samples,
        }


@dataclass(frozen=True, kw_only=True)
class GenerationOutcome:
    """How a run ended: kernels there now, samples without one and the reason, and what it all took."""

    finished: int
    drawn: int
    given_up: Mapping[KernelKey, str]
    failed: Mapping[KernelKey, str]
    totals: Totals


class Generation:
    """Draws every wanted sample of a run that is not there yet."""

    def __init__(
        self,
        run: RunFolder,
        problems: Problems,
        model: Model,
        *,
        options: GenerationOptions,
        judge: Judge | None = None,
    ) -> None:
        if options.turns > 1 and judge is None:
            raise ValueError("several turns need an evaluator that judges between them")
        self._run = run
        self._problems = problems
        self._options = options
        self._judge = judge
        self._journal = Journal(run.path)
        self._stopped = threading.Event()
        self._failed: dict[KernelKey, str] = {}
        self._sampler = Sampler(
            model=model,
            journal=self._journal,
            replies=Replies(
                folder=run.path,
                model=str(options.recorded.get("model_name", "")),
                parameters={k: v for k, v in options.recorded.items() if k not in _OF_THE_SERVER},
            ),
            looking=Looking(
                backend=options.prompt.backend,
                precision=options.prompt.precision or "fp32",
                check_kernel=options.check_kernel,
            ),
            patience=options.patience,
            stopped=self._stopped,
            regenerations=options.regenerations,
        )

    def draw(self, on_sample: OnSample, on_wait: OnWait | None = None) -> GenerationOutcome:
        """Draw what is missing, calling `on_sample` after each answer that is kept, `on_wait` before pauses.

        Raises ConfigError where the folder holds samples of other options, ModelError where the server
        refuses every request, and StoreError while another process works on the same run.
        """
        if on_wait is not None:
            self._sampler = replace(self._sampler, on_wait=on_wait)
        with store.locked(self._journal.path):
            self._run.sweep()
            self._keep_config()
            wanted = self.wanted()
            for turn in range(1, self._options.turns + 1):
                self._draw_turn([key for key in wanted if key not in self._failed], turn, on_sample)
            self._finish_turns(wanted)
            there = set(self._run.kernel_keys())
            return GenerationOutcome(
                finished=sum(key in there for key in self.every()),
                drawn=sum(key in there for key in wanted),
                given_up=self._given_up(),
                failed={key: why for key, why in sorted(self._failed.items()) if key not in there},
                totals=self._journal.totals(),
            )

    def every(self) -> list[KernelKey]:
        """List every sample of the run, finished or not: sample 0 of every problem first."""
        return [
            KernelKey(level, problem, sample)
            for sample in range(self._options.samples)
            for level, problem in sorted(self._problems)
        ]

    def wanted(self) -> list[KernelKey]:
        """List the samples that are neither finished nor given up."""
        done = set(self._run.kernel_keys())
        if not self._options.retry_given_up:
            done |= set(self._given_up())
        return [key for key in self.every() if key not in done]

    def prompt(self, key: KernelKey) -> str:
        """Write the prompt of a sample."""
        return self._options.prompt.render(shown(self._problems[key.level, key.problem_id]))

    def _given_up(self) -> dict[KernelKey, str]:
        there = set(self._run.kernel_keys())
        return {key: reason for key, reason in self._journal.given_up().items() if key not in there}

    def _keep_config(self) -> None:
        config = self._options.config()
        if self._run.config_path.exists() and (self._run.kernel_keys() or self._journal.totals().replies):
            before = read_config(self._run.config_path)
            differing = _differences(before, config)
            if differing:
                raise ConfigError(
                    f"{self._run.path} holds samples of other options ({'; '.join(differing)}); "
                    "give the options it was started with, or another run name"
                )
            if isinstance(drawn := before.get("num_samples"), int):
                config["num_samples"] = max(drawn, config["num_samples"])
        write_config(self._run.config_path, config)

    def _draw_turn(self, keys: Sequence[KernelKey], turn: int, on_sample: OnSample) -> None:
        missing = [key for key in keys if self._options.turns == 1 or len(self._turns(key).read()) < turn]
        with self._pool() as pool:
            drawing: dict[Future[None], KernelKey] = {}
            for at, key in enumerate(missing):
                if at > 0:
                    self._take_finished(drawing, on_sample, for_s=self._options.interval_s)
                drawing[pool.submit(partial(self._draw_one, key, turn))] = key
            self._take_finished(drawing, on_sample)
        if self._options.turns > 1:
            self._judge_turn([key for key in keys if key not in self._failed])

    @contextmanager
    def _pool(self) -> Iterator[Pool]:
        pool = Pool(self._options.workers)
        try:
            yield pool
        except KeyboardInterrupt:
            self._stopped.set()
            pool.close(PARTING_S)
            raise
        except BaseException:
            self._stopped.set()
            pool.close()
            raise
        pool.close()

    def _take_finished(
        self, drawing: dict[Future[None], KernelKey], on_sample: OnSample, *, for_s: float | None = None
    ) -> None:
        """Take samples out as they finish, for so many seconds, or until none is left.

        No single wait is long, so that Ctrl-C comes through.
        """
        until = math.inf if for_s is None else time.monotonic() + for_s
        while (left_s := until - time.monotonic()) > 0 and (drawing or for_s is not None):
            if not drawing:
                time.sleep(min(left_s, LONGEST_WAIT_S))
                continue
            done, _ = wait(drawing, min(left_s, LONGEST_WAIT_S), FIRST_COMPLETED)
            for future in done:
                self._take(future, drawing.pop(future), on_sample)

    def _take(self, future: Future[None], key: KernelKey, on_sample: OnSample) -> None:
        try:
            future.result()
        except NoKernelError as error:
            self._failed[key] = str(error)
            self._journal.add("given_up", key, reason=str(error))
        except ModelError as error:
            self._failed[key] = str(error)
            # A conversation that is refused, for its length say, ends there: its best attempt is handed in.
            has_ended = error.refused and self._options.turns > 1 and self._turns(key).path.exists()
            self._journal.add("given_up" if has_ended else "failed", key, reason=str(error)[:300])
            if error.fatal:
                raise
        else:
            on_sample(key)

    def _draw_one(self, key: KernelKey, turn: int) -> None:
        prompt = self.prompt(key)
        if self._options.log_prompts:
            write_text(self._run.prompt_path(key), prompt)
        if self._options.turns == 1:
            messages: list[Message] = [{"role": "user", "content": prompt}]
            self._run.write_kernel(key, self._sampler.draw(key, messages, turn))
            return
        file = self._turns(key)
        turns = file.read()
        file.write([*turns, Turn(code=self._sampler.draw(key, conversation(prompt, turns), turn))])

    def _turns(self, key: KernelKey) -> TurnFile:
        return TurnFile(folder=self._run.path, key=key)

    def _judge_turn(self, keys: Sequence[KernelKey]) -> None:
        """Judge every last attempt that has no row; what our machinery fails at is left for the next run."""
        jobs = []
        for key in keys:
            turns = self._turns(key).read()
            if turns and turns[-1].row is None:
                problem = self._problems[key.level, key.problem_id]
                jobs.append(Job(key=key, source=turns[-1].code, problem=problem))
        if self._judge is None or not jobs:
            return
        for row in self._judge(jobs):
            if row.status is Status.INFRA_ERROR:
                self._failed[row.key] = "the evaluator could not judge an attempt; run it again"
                continue
            file = self._turns(row.key)
            turns = file.read()
            file.write([*turns[:-1], Turn(code=turns[-1].code, row=row)])

    def _finish_turns(self, keys: Sequence[KernelKey]) -> None:
        """Hand in the best attempt of every sample that has had all its turns, or gives no further kernel."""
        if self._options.turns == 1:
            return
        given_up = self._given_up()
        for key in keys:
            turns = self._turns(key).read()
            if turns and (len(turns) >= self._options.turns or key in given_up):
                self._run.write_kernel(key, best_turn(turns).code)


def write_config(path: Path, config: Mapping[str, Any]) -> None:
    """Write `generation_config.yaml`: one option a line, values as JSON, which is YAML."""
    write_text(path, "".join(f"{name}: {json.dumps(value, default=str)}\n" for name, value in config.items()))


def read_config(path: Path) -> dict[str, Any]:
    """Read what `write_config` wrote, and plain words as other tools write them; skip other lines."""
    found: dict[str, Any] = {}
    for line in path.read_text("utf-8-sig", "replace").splitlines():
        name, _, value = line.partition(": ")
        try:
            found[name] = json.loads(value)
        except (ValueError, RecursionError):
            if re.fullmatch(r"[\w./+-][\w./:+ -]*", value):
                found[name] = value.strip()
    return found


_MAY_CHANGE = {"num_samples", "server_type"}
"""More samples may be drawn later, and a server may move."""


def _differences(before: Mapping[str, Any], config: Mapping[str, Any]) -> list[str]:
    now = json.loads(json.dumps(config, default=str))
    # KernelBench's own files name other options beside these, and not all of ours.
    is_ours = "regenerations" in before
    names = before.keys() | now.keys() if is_ours else before.keys() & now.keys()
    return [
        f"{name} was {before.get(name)!r}, is {now.get(name)!r}"
        for name in sorted(names - _MAY_CHANGE)
        if before.get(name) != now.get(name)
    ]
