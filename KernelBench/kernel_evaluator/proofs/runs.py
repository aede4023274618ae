"""Runs a reference problem and sums its tensors up in a few numbers. Imports torch only where it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from kernel_evaluator.problems.problem_set import Problem

if TYPE_CHECKING:
    import torch

SAMPLES = 16
_WEIGHTS = 8191
_CHUNK = _WEIGHTS * 256
_MASK = (1 << 64) - 1


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A tensor in a few numbers: sums in float64, and some elements by a fixed choice of places."""

    shape: tuple[int, ...]
    dtype: str
    count: int
    total: float
    abs_sum: float
    weighted_sum: float
    samples: tuple[float, ...]

    def facts(self) -> dict[str, Any]:
        """Give the summary in the words of the fingerprints."""
        return {
            "shape": list(self.shape),
            "dtype": self.dtype,
            "sum": self.total,
            "abs_sum": self.abs_sum,
            "weighted_sum": self.weighted_sum,
            "samples": list(self.samples),
        }


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a problem made of a seed: constructor arguments as text, weights, inputs and outputs."""

    init: str
    state: tuple[tuple[str, Summary], ...]
    inputs: tuple[Summary | float, ...]
    outputs: tuple[Summary | float, ...]


def run(problem: Problem, seed: int, *, double: bool = False) -> Run:
    """Run a problem on the CPU, seeding before every step; with `double` the forward is in float64."""
    import torch

    torch.set_num_threads(1)
    names = execute(problem)
    with torch.no_grad():
        init = _seeded(seed, names["get_init_inputs"])
        model = _seeded(seed, lambda: names["Model"](*init))
        state = tuple((name, summarise(value)) for name, value in model.state_dict().items())
        inputs = _seeded(seed, names["get_inputs"])
        summaries = tuple(_summary(value) for value in inputs)
        if double:
            model, inputs = model.double(), [_doubled(value) for value in inputs]
        outputs = _seeded(seed, lambda: model(*inputs))
    return Run(
        init=repr(init),
        state=state,
        inputs=summaries,
        outputs=tuple(_summary(value) for value in leaves(outputs)),
    )


Kinds = list[list[Any]]
"""Shape and type a tensor."""


def shapes_at_full_size(problem: Problem, *, forward: bool = True) -> tuple[str, Kinds, Kinds | None]:
    """Give constructor arguments, and the kinds of inputs and outputs, without memory for them.

    Without `forward` the outputs are None.
    """
    import torch

    names = execute(problem)
    with torch.no_grad(), torch.device("meta"):
        init = names["get_init_inputs"]()
        inputs = names["get_inputs"]()
        outputs = leaves(names["Model"](*init)(*inputs)) if forward else None
    return repr(init), _kinds(inputs), None if outputs is None else _kinds(outputs)


def _kinds(values: Sequence[Any]) -> Kinds:
    import torch

    return [[list(v.shape), dtype_name(v)] for v in values if isinstance(v, torch.Tensor)]


def execute(problem: Problem) -> dict[str, Any]:
    """Execute a problem's source at its size and give its names."""
    names: dict[str, Any] = {"__name__": f"problem_{problem.level}_{problem.problem_id}"}
    code = compile(problem.sized_source, str(problem.path or problem.name), "exec")
    exec(code, names)  # noqa: S102  # the problem set is part of this project
    return names


def leaves(value: Any) -> list[Any]:
    """Flatten what a forward returned."""
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, Sequence):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def summarise(tensor: torch.Tensor) -> Summary:
    """Sum a tensor up."""
    flat = tensor.detach().reshape(-1)
    weights = _weights()
    total = abs_sum = weighted_sum = 0.0
    for start in range(0, flat.numel(), _CHUNK):
        part = flat[start : start + _CHUNK].double()
        total += part.sum().item()
        abs_sum += part.abs().sum().item()
        weighted_sum += (part @ weights[: part.numel()]).item()
    return Summary(
        shape=tuple(tensor.shape),
        dtype=dtype_name(tensor),
        count=flat.numel(),
        total=total,
        abs_sum=abs_sum,
        weighted_sum=weighted_sum,
        samples=tuple(float(flat[index]) for index in sample_indices(flat.numel())),
    )


@cache
def _weights() -> torch.Tensor:
    import torch

    return torch.arange(1, _WEIGHTS + 1, dtype=torch.float64).div(_WEIGHTS).repeat(_CHUNK // _WEIGHTS)


def dtype_name(tensor: torch.Tensor) -> str:
    """Name a tensor's type: float32."""
    return str(tensor.dtype).removeprefix("torch.")


def sample_indices(count: int) -> list[int]:
    """Choose the places of sampled elements: all of at most 16, else splitmix64 of 0..15."""
    if count <= SAMPLES:
        return list(range(count))
    return [_splitmix64(index) % count for index in range(SAMPLES)]


def _splitmix64(index: int) -> int:
    value = (index + 1) * 0x9E3779B97F4A7C15 & _MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31


def _seeded(seed: int, make: Any) -> Any:
    import torch

    torch.manual_seed(seed)
    return make()


def _summary(value: Any) -> Summary | float:
    import torch

    return summarise(value) if isinstance(value, torch.Tensor) else value


def _doubled(value: Any) -> Any:
    import torch

    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if floating else value
