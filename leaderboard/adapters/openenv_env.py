"""KernelBench as an OpenEnv environment, over `kbl serve`.

    KBL_URL=http://localhost:8900 uvicorn leaderboard.adapters.openenv_env:app --port 8090

`reset(level=1, problem_id=19)` gives the prompt; `step(reply=…)` judges the kernel in a reply, and gives its
reward and what to mend; no reward where the machinery failed. An episode is over when a kernel is correct or
the turns are used up. It needs a session, as OpenEnv's clients have one: over `POST /step` nothing was reset.
"""

from __future__ import annotations

import os
import uuid
from typing import Any

from openenv.core import Action, Environment, Observation, State, create_fastapi_app
from pydantic import Field

from leaderboard.adapters.tasks import Tasks

MAX_TURNS = int(os.environ.get("KBL_MAX_TURNS", "4"))


class KernelReply(Action):  # type: ignore[misc]
    """A model's whole reply, with the kernel in a fenced block."""

    reply: str


class KernelVerdict(Observation):  # type: ignore[misc]
    """The prompt at first, then what was found of each kernel."""

    words: str = ""
    status: str = ""
    figures: dict[str, float] = Field(default_factory=dict)


class KernelEnvironment(Environment):  # type: ignore[misc]
    """One problem an episode."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, tasks: Tasks | None = None, max_turns: int = MAX_TURNS) -> None:
        super().__init__()
        self._tasks = tasks or _tasks_of_the_environment()
        self._max_turns = max_turns
        self._state = State(episode_id="", step_count=0)
        self._problem: tuple[int, int] | None = None

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        level: int = 1,
        problem_id: int = 1,
        **_: Any,
    ) -> KernelVerdict:
        """Begin an episode on a problem; raise ValueError where there is none."""
        problem = self._tasks.problem(level, problem_id)
        self._problem = (level, problem_id)
        self._state = State(episode_id=episode_id or str(uuid.uuid4()), step_count=0)
        return KernelVerdict(words=self._tasks.prompt(problem), reward=None, done=False)

    def step(self, action: KernelReply, timeout_s: float | None = None, **_: Any) -> KernelVerdict:
        """Judge the kernel in a reply; raise ValueError before a reset, which says on which problem."""
        if self._problem is None:
            raise ValueError("step needs a reset before it, in the same session: it names the problem")
        self._state.step_count += 1
        found = self._tasks.answer(action.reply, *self._problem)
        return KernelVerdict(
            words=found.words,
            status=found.reward.status if found.reward else "no kernel",
            figures=found.figures(),
            reward=found.value if found.is_usable else None,
            done=found.is_done or self._state.step_count >= self._max_turns,
        )

    @property
    def state(self) -> State:
        """Where the episode is."""
        return self._state


def _tasks_of_the_environment() -> Tasks:
    return Tasks(
        levels=(1, 2, 3, 4),
        backend=os.environ.get("KBL_BACKEND", "cuda"),
        measure=os.environ.get("KBL_MEASURE", "1") != "0",
    )


app = create_fastapi_app(KernelEnvironment, KernelReply, KernelVerdict, max_concurrent_envs=64)
