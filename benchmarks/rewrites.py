"""Honest kernels made from the problems themselves: the reference in other words, which nobody may turn away.

Each way of rewriting keeps what is computed and changes how: parameter names, strides, memory, precision,
formulas, autograd modes. Used by `benchmarks/redteam.py --rewrites N`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, islice, zip_longest

from copies import as_kernel
from kernel_evaluator.problems.problem_set import Problem, ProblemSet, read_sizes
from redteam import Case

_LEAVES = """

def _each(change, output):
    if isinstance(output, (tuple, list)):
        return type(output)(_each(change, part) for part in output)
    return change(output)


class ModelNew(_Own):
    def forward(self, *inputs):
        return _each(_change, super().forward(*inputs))
"""


def copy(problem: Problem) -> str | None:
    """The reference itself."""
    return as_kernel(problem.source)


def own_names(problem: Problem) -> str | None:
    """Its own names for parameters and modules."""
    if re.search(r"register_|setattr|getattr|__dict__|ModuleDict|state_dict", problem.source):
        return None
    tree = ast.parse(as_kernel(problem.source))
    model = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "ModelNew")
    stored = {
        node.attr
        for node in ast.walk(model)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _of_self(node)
    }
    if not stored:
        return None
    for node in ast.walk(model):
        if isinstance(node, ast.Attribute) and _of_self(node) and node.attr in stored:
            node.attr = f"my_{node.attr}"
    return ast.unparse(tree)


def strided(problem: Problem) -> str | None:
    """Outputs whose first and last axis lie the other way round in memory."""
    change = "lambda t: t.transpose(0, -1).contiguous().transpose(0, -1) if t.dim() > 1 else t.clone()"
    return _wrapped(problem, f"_change = {change}\n")


def padded(problem: Problem) -> str | None:
    """Outputs that are parts of larger buffers."""
    body = """def _change(t):
    if t.dim() == 0:
        return t.clone()
    room = torch.zeros(*t.shape[:-1], t.shape[-1] + 3, dtype=t.dtype, device=t.device)
    part = room[..., 1:-2]
    part.copy_(t)
    return part
"""
    return _wrapped(problem, body)


def channels_last(problem: Problem) -> str | None:
    """Images in channels-last order on the way in."""
    if "Conv" not in problem.source and "Norm" not in problem.source and "Pool" not in problem.source:
        return None
    return (
        _renamed(problem)
        + """

def _last(t):
    kinds = {4: torch.channels_last, 5: torch.channels_last_3d}
    plain = not isinstance(t, torch.Tensor) or t.dim() not in kinds
    return t if plain else t.contiguous(memory_format=kinds[t.dim()])


class ModelNew(_Own):
    def forward(self, *inputs):
        return super().forward(*[_last(t) for t in inputs])
"""
    )


def double(problem: Problem) -> str | None:
    """Everything in float64, rounded at the end."""
    forward = _forward_of(problem)
    if "float32" in forward or "rand" in forward or "Dropout" in problem.source:
        return None
    return (
        _renamed(problem)
        + """

def _up(t):
    return t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t


def _each(change, output):
    if isinstance(output, (tuple, list)):
        return type(output)(_each(change, part) for part in output)
    return change(output)


class ModelNew(_Own):
    def forward(self, *inputs):
        state = {name: _up(t) for name, t in [*self.named_parameters(), *self.named_buffers()]}
        kept = {name: t.clone() for name, t in self.named_buffers()}
        inner = super().forward

        class _Call(torch.nn.Module):
            def __init__(self, owner):
                super().__init__()
                self.owner = owner

            def forward(self, *given):
                return inner(*given)

        output = torch.func.functional_call(
            _Call(self), {f"owner.{name}": t for name, t in state.items()}, tuple(_up(t) for t in inputs)
        )
        for name, t in self.named_buffers():
            if name in kept and t.is_floating_point():
                t.copy_(kept[name])
        return _each(lambda t: t.float() if t.dtype == torch.float64 else t, output)
"""
    )


def inference(problem: Problem) -> str | None:
    """In inference mode, on copies of the inputs."""
    return (
        _renamed(problem)
        + """

class ModelNew(_Own):
    def forward(self, *inputs):
        with torch.inference_mode():
            return super().forward(*[t.clone() if isinstance(t, torch.Tensor) else t for t in inputs])
"""
    )


def own_math(problem: Problem) -> str | None:
    """Its own formulas for the usual activations."""
    if not re.search(r"\b(torch|F)\.(relu|sigmoid|tanh|softmax|gelu|logsumexp|clamp)\(", problem.source):
        return None
    return (
        as_kernel(problem.source)
        + """

import math as _math


def _softmax(x, dim=-1):
    shifted = (x - x.amax(dim, keepdim=True)).exp()
    return shifted / shifted.sum(dim, keepdim=True)


def _logsumexp(x, dim, keepdim=False):
    top = x.amax(dim, keepdim=True)
    found = (x - top).exp().sum(dim, keepdim=True).log() + top
    return found if keepdim else found.squeeze(dim)


_OWN = {
    "relu": lambda x: x.clamp(min=0),
    "sigmoid": lambda x: 1 / (1 + (-x).exp()),
    "tanh": lambda x: 1 - 2 / ((2 * x).exp() + 1),
    "softmax": _softmax,
    "gelu": lambda x: 0.5 * x * (1 + torch.erf(x / _math.sqrt(2.0))),
    "logsumexp": _logsumexp,
}


class _Shadow:
    def __init__(self, module):
        self.module = module

    def __getattr__(self, name):
        return _OWN[name] if name in _OWN else getattr(self.module, name)


torch = _Shadow(torch)
if "F" in globals():
    F = _Shadow(F)
"""
    )


WAYS: dict[str, Callable[[Problem], str | None]] = {
    "copy": copy,
    "own-names": own_names,
    "own-math": own_math,
    "strided": strided,
    "channels-last": channels_last,
    "padded": padded,
    "double": double,
    "inference": inference,
}


def rewrite_cases(device: str, count: int) -> list[Case]:
    """Give `count` rewrites, at sizes for a CPU, each way in turn so that all are among the first."""
    sizes = read_sizes()
    ranked = [problem.reduced(sizes) for problem in ProblemSet() if problem.level <= 3]
    return list(islice(_cases(ranked, device), count))


def _cases(problems: list[Problem], device: str) -> Iterator[Case]:
    by_way = [[_case(way, problem, device) for problem in problems] for way in WAYS]
    spread = [chain(cases[at * 7 :], cases[: at * 7]) for at, cases in enumerate(by_way)]
    for case in chain.from_iterable(zip_longest(*spread)):
        if case is not None:
            yield case


def _case(way: str, problem: Problem, device: str) -> Case | None:
    source = WAYS[way](problem)
    if source is None:
        return None
    number = f"{problem.level}_{problem.problem_id}"
    return Case(
        id=f"rewrite-{way}-{number}",
        kind="honest",
        problem=replace(problem),
        source=source,
        timeout_s=90.0,
        memory_gb=16.0 if device == "cuda" else 6.0,
        measure=False,
    )


def _renamed(problem: Problem) -> str:
    return re.sub(r"\bModel\b", "_Own", problem.source)


def _wrapped(problem: Problem, change: str) -> str:
    return f"{_renamed(problem)}\n\n{change}{_LEAVES}"


def _forward_of(problem: Problem) -> str:
    return problem.source.partition("def forward")[2].partition("def get_inputs")[0]


def _of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"
