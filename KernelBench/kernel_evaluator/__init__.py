"""The evaluator of KernelBench's problems: building, judging, timing, scoring. Importing it loads no torch.

In: kernels and problem files. Out: rows. Its rooms from top to bottom: `engines`, `upstream`, `judging`,
`timing`, `stand`, `proofs`, `candidate`, `building`, `problems`; `labels`, `machine`, `numerics`,
`walls`; `records`.
"""

from kernel_evaluator.problems.problem_set import Problem, ProblemSet
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import ResultFile, Row, Status

__all__ = ["KernelKey", "Problem", "ProblemSet", "ResultFile", "Row", "Status"]
