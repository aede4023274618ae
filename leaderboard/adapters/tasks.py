"""What every adapter does: problems as prompts, a reply as a kernel, a verdict as reward and words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernel_evaluator.problems.problem_set import Problem

from leaderboard.generate.looking import Looking, asking_again
from leaderboard.generate.turns import feedback
from leaderboard.prompts import PromptOptions
from leaderboard.prompts.shown import shown
from leaderboard.reward import SHAPING, Reward, Shaping, reward
from leaderboard.stages.checked import chosen_problems


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What came of a reply: its reward, and what to tell the model. No reward where nothing was judged."""

    reward: Reward | None
    words: str

    @property
    def value(self) -> float:
        """The reward; a reply without a kernel gets nothing."""
        return self.reward.value if self.reward else 0.0

    @property
    def is_usable(self) -> bool:
        """Whether the reward says something of the reply; not where the machinery failed."""
        return self.reward is None or self.reward.is_usable

    @property
    def is_done(self) -> bool:
        """Whether the kernel is correct, so that there is nothing to mend."""
        return self.reward is not None and self.reward.correct

    def figures(self) -> dict[str, float]:
        """The reward's facts as numbers, for what counts them."""
        found = self.reward
        return {
            "compiled": float(found is not None and found.compiled),
            "correct": float(found is not None and found.correct),
            "fragile": float(found is not None and found.fragile),
            "cheat": float(found is not None and found.cheat),
            "speedup": found.speedup or 0.0 if found else 0.0,
            "usable": float(self.is_usable),
        }


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """The benchmark as tasks: which problems, how they are asked, and how kernels are judged.

    The server is the one that KBL_URL and KBL_API_KEY name, http://localhost:8900 where they do not.
    """

    levels: tuple[int, ...] = (1, 2, 3)
    problem_ids: tuple[int, ...] = ()
    backend: str = "cuda"
    option: str = "one_shot"
    precision: str = "fp32"
    measure: bool = True
    trials: int = 5
    timeout_s: float = 180.0
    shaping: Shaping = SHAPING

    def problems(self) -> list[Problem]:
        """List the problems; raise ValueError where one of `problem_ids` is in none of the levels."""
        return chosen_problems(self.levels, self.problem_ids)

    def problem(self, level: int, problem_id: int) -> Problem:
        """Give one problem; raise ValueError where there is none of that name among these."""
        found = [each for each in self.problems() if (each.level, each.problem_id) == (level, problem_id)]
        if not found:
            raise ValueError(
                f"there is no problem {problem_id} in level {level}; kbl problems list names them"
            )
        return found[0]

    def prompt(self, problem: Problem) -> str:
        """Word a problem for a model."""
        options = PromptOptions(backend=self.backend, option=self.option, precision=self.precision)
        return options.render(shown(problem))

    def answer(self, reply: str, level: int, problem_id: int) -> Answered:
        """Have the kernel in a reply judged. Raises ServerError where the server refuses or stays away."""
        look = Looking(backend=self.backend, precision=self.precision, check_kernel=False).at(reply)
        if look.code is None:
            return Answered(reward=None, words=asking_again(look.complaint))
        options: dict[str, Any] = {
            "precision": self.precision,
            "measure": self.measure,
            "trials": self.trials,
            "timeout_s": self.timeout_s,
        }
        found = reward(look.code, level, problem_id, shaping=self.shaping, **options)
        return Answered(reward=found, words=feedback(found.row) if found.row else "")
