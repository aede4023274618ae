"""A problem as a model sees it: the code. What our docstrings say of a problem is for people.

They say, for instance, on which problems a shortcut would pass. KernelBench's files hold no such words.
"""

from __future__ import annotations

import ast

from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.places import PROBLEM_SET

_WITH_DOCSTRING = ast.Module | ast.ClassDef | ast.FunctionDef


def shown(problem: Problem) -> str:
    """Give a problem's source without its docstrings; that of another set as it is."""
    if problem.path is None or not problem.path.is_relative_to(PROBLEM_SET):
        return problem.source
    lines = problem.source.splitlines()
    noted = {
        number
        for node in ast.walk(ast.parse(problem.source))
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node) is not None
        for number in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    kept = [line for number, line in enumerate(lines, 1) if number not in noted]
    code = [
        line
        for before, line in zip(["", *kept], kept, strict=False)
        if line.strip() or not before.rstrip().endswith(":")
    ]
    return "\n".join(code).strip() + "\n"
