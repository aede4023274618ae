"""A problem at other sizes that its model does not know of: other batches, lengths, widths, odd ones.

Executes the problem's source, trusted as the oracle's own, where no tensor takes memory.
"""

from __future__ import annotations

import ast
import random
from dataclasses import replace

import torch

from kernel_evaluator.problems.inputs import InputLeaf, InputSource, load_module
from kernel_evaluator.problems.problem_set import Problem

_MISFITS = (RuntimeError, ValueError, TypeError, LookupError, AssertionError, ArithmeticError)


def other_shapes(problem: Problem, kernel_sha256: str) -> tuple[str, Problem] | None:
    """The problem with inputs of other shapes for the same model: all that may change at once, or else one.

    Sizes are odd ones, smaller than the graded, drawn by the kernel's digest: whoever writes a kernel cannot
    choose them, and who builds it ahead knows them. None where every size is the model's as well.
    """
    drawing = random.Random(kernel_sha256)
    graded = _seen(problem)
    if graded is None:
        return None
    drawn = {name: _odd_below(value, drawing) for name, value in _sizes(problem).items() if value > 1}
    free = {name: size for name, size in drawn.items() if _fits(_with(problem, {name: size}), graded)}
    if not free:
        return None
    name = drawing.choice(sorted(free))
    if not _fits(_with(problem, free), graded):
        free = {name: free[name]}
    return ", ".join(f"{name} = {size}" for name, size in free.items()), _with(problem, free)


def _sizes(problem: Problem) -> dict[str, int]:
    """The whole numbers that the source sets at its top, as they are at the problem's size."""
    names = {
        target.id
        for statement in ast.parse(problem.source).body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    values = vars(load_module(problem))
    return {name: values[name] for name in sorted(names) if type(values.get(name)) is int}


def _odd_below(size: int, drawing: random.Random) -> int:
    return drawing.randrange(max(1, size // 4), max(2, size // 2)) | 1 if size > 2 else 1


def _with(problem: Problem, sizes: dict[str, int]) -> Problem:
    return replace(problem, overrides={**problem.overrides, **sizes})


def _seen(problem: Problem) -> tuple[str, list[InputLeaf]] | None:
    """What the model is built with, and the shapes of its inputs; None where they cannot be had."""
    try:
        source = InputSource(problem, "meta", torch.float32)
        return source.init_arguments(), source.leaves
    except _MISFITS:
        return None


def _fits(other: Problem, graded: tuple[str, list[InputLeaf]]) -> bool:
    seen = _seen(other)
    return seen is not None and seen[0] == graded[0] and seen[1] != graded[1]
