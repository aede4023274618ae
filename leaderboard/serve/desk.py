"""Turns requests into judgements, and judgements into answers. Knows HTTP's codes, and no connection."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from fastapi import HTTPException
from kernel_evaluator.engines.local import needs_transformers
from kernel_evaluator.machine.extras import install, missing
from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import Problem, ProblemSet

from leaderboard.checks.document import MAX_KERNEL_BYTES
from leaderboard.serve.judgements import IdTakenError, Judgement, Judgements, QueueFullError
from leaderboard.serve.keys import Key, Keyring
from leaderboard.serve.refusals import BODY, Place, mistake
from leaderboard.serve.requests import JudgementView, NewJudgement
from leaderboard.stages.checked import problem_source, reductions, sizes_on


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the desk takes in. `place` is the device and what runs on it, on which verdicts hang."""

    device: str
    problem_set: ProblemSet
    place: str = ""
    max_source_bytes: int = MAX_KERNEL_BYTES
    max_timeout_s: float = 600.0


class Desk:
    """Takes requests in under the rules, each for a key."""

    def __init__(self, rules: Rules, judgements: Judgements, keyring: Keyring) -> None:
        self._rules = rules
        self._judgements = judgements
        self._keyring = keyring
        self._reductions = reductions(sizes_on(rules.device))
        self._problems: dict[tuple[int, int], Problem] = {}
        self._lock = threading.Lock()
        """Held while a problem is parsed: Python 3.11 cannot do that in two threads at once."""

    def take_in(self, key: Key, asked: Mapping[Place, NewJudgement]) -> list[Judgement]:
        """Queue judgements, each by its place in the request, all or none.

        Raises HTTPException with what is wrong, or how long to wait.
        """
        items = [self._judgement(key, each, place) for place, each in asked.items()]
        most = min(key.max_queued or self._judgements.max_queued, self._judgements.max_queued)
        if len(items) > most:
            whose = "here" if key.max_queued is None else f"of the key {key.name}"
            said = f"a batch {whose} has at most {most} judgements, got {len(items)}; send it in parts"
            raise mistake((*BODY, "judgements"), said)
        new = sum(self._judgements.find(item.id, key.name) is None for item in items)
        if wait_s := self._keyring.wait_s(key, new):
            said = f"the key {key.name} may send {key.per_minute} judgements a minute"
            raise HTTPException(429, said, headers={"Retry-After": f"{wait_s + 0.5:.0f}"})
        try:
            return self._judgements.add_all(items, key.max_queued)
        except IdTakenError as error:
            self._keyring.give_back(key, new)
            raise HTTPException(409, str(error)) from error
        except QueueFullError as error:
            self._keyring.give_back(key, new)
            raise HTTPException(429, str(error), headers={"Retry-After": "5"}) from error

    def find(self, key: Key, judgement_id: str) -> Judgement:
        """Look up a judgement of the key's; raise HTTPException where there is none."""
        item = self._judgements.find(judgement_id, key.name)
        if item is None:
            raise HTTPException(404, "no such judgement; finished ones are kept for a while only")
        return item

    def view(self, item: Judgement) -> JudgementView:
        """Say where a judgement is."""
        verdict = item.verdict or {}
        return JudgementView(
            id=item.id,
            state=item.state.value,
            position=self._judgements.position(item),
            created=item.created,
            started=item.started,
            finished=item.finished,
            remembered=item.remembered,
            row=verdict.get("row"),
            environment=verdict.get("environment"),
        )

    def _judgement(self, key: Key, asked: NewJudgement, place: Place) -> Judgement:
        rules = self._rules
        for text in (asked.source, asked.problem_source or ""):
            if len(text.encode()) > rules.max_source_bytes:
                raise HTTPException(413, f"source must be at most {rules.max_source_bytes} bytes")
        if asked.timeout_s > rules.max_timeout_s:
            raise mistake((*place, "timeout_s"), f"timeout_s must be at most {rules.max_timeout_s:g}")
        with self._lock:
            problem = self._problem(key, asked, place)
            assert problem.sha256  # noqa: S101 - it is worked out here
        return Judgement(
            id=asked.id or uuid.uuid4().hex,
            problem=problem,
            source=asked.source,
            settings=Settings(
                sizes=sizes_on(rules.device),
                device=rules.device,
                precision=asked.precision,
                trials=asked.trials,
                measure=asked.measure,
                timeout_s=asked.timeout_s,
            ),
            owner=key.name,
            again=asked.again,
            place=rules.place,
        )

    def _problem(self, key: Key, asked: NewJudgement, place: Place) -> Problem:
        if asked.problem_source is not None:
            own = _own_problem(key, asked.level, asked.problem_source, (*place, "problem_source"))
            return self._places.get(own.sha256, own)
        wanted = (asked.level, asked.problem_id or 0)
        if wanted not in self._problems:
            try:
                problem = self._rules.problem_set.load(*wanted)
            except KeyError as error:
                said = f"there is no problem {asked.problem_id} in level {asked.level}"
                raise mistake((*place, "problem_id"), said) from error
            self._problems[wanted] = _runnable(problem.reduced(self._reductions), (*place, "problem_id"))
        return self._problems[wanted]

    @cached_property
    def _places(self) -> Mapping[str, Problem]:
        """The set's problems by digest: what is judged by a problem's place holds for its source too.

        Verdicts are remembered by digest, so one without the floor would answer who names the problem.
        """
        return {problem.sha256: problem for problem in self._rules.problem_set}


def _own_problem(key: Key, level: int, source: str, place: Place) -> Problem:
    """A problem that came with the request: its rows carry the level that was named, and problem 1.

    One of the set's, sent as its source, is judged as that.
    """
    if not key.own_problems:
        raise HTTPException(
            403,
            "problem_source is not taken: a problem's own code runs outside of the kernel's walls. The "
            "server allows it with --own-problems, or own_problems = true for a key",
        )
    try:
        source = problem_source(source)  # only now, since to parse what has no bound takes any memory
    except ValueError as error:
        raise mistake(place, f"problem_source: {error}") from error
    return _runnable(Problem(level=level, problem_id=1, name="own", source=source), place)


def _runnable(problem: Problem, place: Place) -> Problem:
    if needs_transformers(problem) and missing("level4"):
        said = f"this problem needs transformers, which the server lacks; run there: {install('level4')}"
        raise mistake(place, said)
    return problem
