"""A look at a model's answer: its kernel, and what to complain about before anything is built.

The complaints are KernelBench's static checker's, and turn no kernel down: they are reasons to ask again.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernel_evaluator.labels.static_check import validate_kernel_static

from leaderboard.generate.extract import kernel_block, without_thoughts
from leaderboard.texts.python_source import parsed


@dataclass(frozen=True, kw_only=True)
class AnswerCode:
    """What is in an answer: its code where it is complete, and what to complain about where anything is."""

    code: str | None
    complaint: str


@dataclass(frozen=True, kw_only=True)
class Looking:
    """How answers are looked at; without `check_kernel` any complete code block will do."""

    backend: str
    precision: str
    check_kernel: bool = True

    def at(self, answer: str) -> AnswerCode:
        """Say what an answer holds."""
        said = without_thoughts(answer)
        if not said.strip():
            what = "ends before its thoughts do" if answer.strip() else "is empty"
            return AnswerCode(code=None, complaint=f"the answer {what}")
        block = kernel_block(said)
        if block is None:
            return AnswerCode(code=None, complaint="the answer has no fenced code block")
        if not block.closed:
            return AnswerCode(code=None, complaint="the answer ends inside its code block")
        if not block.code:
            return AnswerCode(code=None, complaint="the code block is empty")
        return AnswerCode(code=block.code + "\n", complaint=self._complaint(block.code))

    def _complaint(self, code: str) -> str:
        if not self.check_kernel:
            return ""
        try:
            compile(parsed(code, "kernel"), "kernel", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return f"the code does not parse: {error}"
        if "ModelNew" not in code:
            return "the code does not define ModelNew"
        _, errors, _ = validate_kernel_static(code, self.backend, self.precision)
        return "; ".join(errors)


def asking_again(complaint: str) -> str:
    """Word the request for another answer."""
    wish = "Please give the complete source of ModelNew in one fenced code block."
    return f"That cannot be used: {complaint}. {wish}"
