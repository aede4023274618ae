"""KernelBench as an environment of `verifiers` (its v1 interface), over `kbl serve`: single and multi-turn.

    KBL_URL=http://localhost:8900 PYTHONPATH=. vf-eval kernels -m MODEL --no-push --env.max-turns 4

Here `kernels.py` imports KernelEnv and KernelTaskset and names them in `__all__`.
The reward is `leaderboard.reward`'s; metrics tell compiled, correct, fragile, cheat and the speedup.
"""

from __future__ import annotations

import asyncio

import verifiers.v1 as vf

from leaderboard.adapters.tasks import Answered, Tasks
from leaderboard.client import ServerError


class KernelData(vf.TaskData):  # type: ignore[misc]
    """One problem."""

    level: int = 1
    problem_id: int = 1


class KernelTaskConfig(vf.TaskConfig):  # type: ignore[misc]
    """How kernels are asked for and judged."""

    backend: str = "cuda"
    option: str = "one_shot"
    precision: str = "fp32"
    measure: bool = True
    trials: int = 5
    timeout_s: float = 180.0

    def tasks(self, levels: tuple[int, ...] = (), problem_ids: tuple[int, ...] = ()) -> Tasks:
        """The benchmark by these choices."""
        return Tasks(
            levels=levels,
            problem_ids=problem_ids,
            backend=self.backend,
            option=self.option,
            precision=self.precision,
            measure=self.measure,
            trials=self.trials,
            timeout_s=self.timeout_s,
        )


class KernelTask(vf.Task[KernelData, vf.State, KernelTaskConfig]):  # type: ignore[misc]
    """A problem, scored by the server's verdict on the last reply."""

    @vf.reward(weight=1.0)
    async def kernel(self, trace: vf.Trace) -> float:
        """Judge the kernel in the last reply; raise ServerError where the machinery failed, not the kernel.

        Then the rollout has an error, and no training takes it for one without a reward.
        """
        found = await judged(self, trace.last_reply)
        for name, value in found.figures().items():
            trace.record_metric(name, value)
        if not found.is_usable:
            raise ServerError(found.words.partition("\n")[0])
        return found.value


class KernelTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
    """Which problems: numbers with commas between, all of the levels where no ids are named."""

    levels: str = "1,2,3"
    problem_ids: str = ""
    task: KernelTaskConfig = KernelTaskConfig()


class KernelTaskset(vf.Taskset[KernelTask, KernelTasksetConfig]):  # type: ignore[misc]
    """The problems as tasks."""

    def load(self) -> list[KernelTask]:
        """Load them all."""
        config = self.config
        tasks = config.task.tasks(_numbers(config.levels), _numbers(config.problem_ids))
        return [
            KernelTask(
                KernelData(
                    name=f"level_{problem.level}_problem_{problem.problem_id}",
                    prompt=tasks.prompt(problem),
                    level=problem.level,
                    problem_id=problem.problem_id,
                ),
                config.task,
            )
            for problem in tasks.problems()
        ]


class KernelEnvConfig(vf.EnvConfig):  # type: ignore[misc]
    """How many turns a model gets; between them it is told what the evaluator found."""

    agent: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})
    max_turns: int = 1


class KernelEnv(vf.Env[KernelEnvConfig]):  # type: ignore[misc]
    """Asks for a kernel, and again with feedback until it is correct or the turns are used up."""

    async def run(self, task: KernelTask, agents: vf.Agents) -> None:
        """Talk to the model about one problem."""
        unasked = type(task)(task.data.model_copy(update={"prompt": None}), task.config)
        async with agents.agent.interaction(unasked) as talk:
            words = task.data.prompt_text
            for turn in range(self.config.max_turns):
                said = await talk.turn(words)
                if said.terminated or turn + 1 == self.config.max_turns:
                    break
                found = await judged(task, said.last_reply)
                if found.is_done:
                    break
                words = found.words


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())


async def judged(task: KernelTask, reply: str) -> Answered:
    """Have a reply judged, while others are waited for too."""
    tasks = task.config.tasks()
    return await asyncio.to_thread(tasks.answer, reply or "", task.data.level, task.data.problem_id)


__all__ = ["KernelEnv", "KernelTaskset"]
