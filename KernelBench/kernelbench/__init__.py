"""The KernelBench evaluator: problems, building, judging, timing, scoring. Importing it loads no torch."""

from kernelbench.keys import KernelKey
from kernelbench.problems import Problem, ProblemSet
from kernelbench.rows import ResultFile, Row, Status

__all__ = ["KernelKey", "Problem", "ProblemSet", "ResultFile", "Row", "Status"]
