"""Inputs for a problem: born on the device from secret seeds, and bent into other distributions.

Executes the problem's own `get_inputs`; runs in the oracle and never sees a submission.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from kernelbench.problems import Problem
from kernelbench.seeding import seed_all

_ULP = 2.0**-21
_PIECE = 1 << 27
_UNIFORM_MEAN, _UNIFORM_STD = 0.5, 0.288675


def _signed(x: torch.Tensor) -> torch.Tensor:
    return x.mul_(2).sub_(1)


def _heavy_tail(x: torch.Tensor) -> torch.Tensor:
    return x.sub_(0.5).mul_(torch.empty_like(x).exponential_(1.0)).mul_(3)


def _rows(x: torch.Tensor) -> torch.Tensor:
    if x.dim() == 0 or x.shape[0] < 2:
        return x
    slope = torch.linspace(-1, 1, x.shape[0], device=x.device, dtype=x.dtype)
    return x.mul_(0.5).add_(slope.view(-1, *[1] * (x.dim() - 1)))


def _spikes(x: torch.Tensor) -> torch.Tensor:
    spiked = torch.rand_like(x) < 1 / 1024
    return x.mul_(2).sub_(1).mul_(spiked.mul(99).add_(1).to(x.dtype))


def _needles(x: torch.Tensor) -> torch.Tensor:
    """Like upstream's in any sample, but for the start of a few rows and four negative elements."""
    if x.dim() == 0:
        return x
    if x.dim() > 1:
        rows = torch.randint(len(x), (max(1, len(x) // 64),), device=x.device)
        start = slice(0, max(1, x.shape[-1] // 32))
        x[rows, ..., start] = 0.999 - x[rows, ..., start] / 1000
    flat = x.view(-1)
    at = torch.randint(flat.numel(), (4,), device=x.device)
    flat[at] = flat[at] * -3
    return x


DISTRIBUTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda x: x,
    "upstream": lambda x: x,
    "signed": _signed,
    "heavy_tail": _heavy_tail,
    "large": lambda x: x.sub_(0.5).mul_(200),
    "small": lambda x: x.div_(100),
    "near_one": lambda x: x.mul_(0.5).add_(0.75),
    "rows": _rows,
    "spikes": _spikes,
    "needles": _needles,
}
"""How a uniform input is bent, in place. `plain` and `upstream` leave it: KernelBench's tolerance applies to
the one, the panel's to the other. The last ones break the sameness of rows, regions and magnitudes."""


@dataclass(frozen=True, kw_only=True)
class InputLeaf:
    """One argument of forward: a tensor, or a scalar. `is_uniform` says that it was drawn from U(0,1)."""

    dtype: torch.dtype | None = None
    shape: tuple[int, ...] = ()
    scalar: float | int | bool | None = None
    is_uniform: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor; 0 for a scalar."""
        if self.dtype is None:
            return 0
        return torch.Size(self.shape).numel() * self.dtype.itemsize


class InputSource:
    """A problem's inputs on one device and in one precision."""

    def __init__(self, problem: Problem, device: str, precision: torch.dtype) -> None:
        self.problem = problem
        self.device = device
        self.precision = precision
        self.module = load_module(problem)
        torch.manual_seed(0)
        drawn = self._draw()
        self.leaves = [self._describe(value) for value in drawn]

    def init_arguments(self) -> str:
        """The constructor's arguments as a literal, or the source that makes them where they are none."""
        text = repr(list(self.module.get_init_inputs()))
        try:
            ast.literal_eval(text)
        except (SyntaxError, ValueError):
            return self.problem.sized_source
        return text

    def draw(self, seed: int, distribution: str = "upstream", *, nudge: bool = False) -> list[Any]:
        """Draw a fresh set of inputs. `nudge` moves each float by about an ulp: a probe of conditioning."""
        seed_all(seed)
        values = self._draw()
        for value, leaf in zip(values, self.leaves, strict=True):
            if leaf.is_uniform:
                _bend(value, DISTRIBUTIONS[distribution])
            if nudge and isinstance(value, torch.Tensor) and value.is_floating_point():
                _bend(value, _nudge)
        return [self._cast(value) for value in values]

    def distributions(self) -> list[str]:
        """The distributions that make a difference: all where some input is uniform, else upstream's."""
        if not any(leaf.is_uniform for leaf in self.leaves):
            return ["upstream"]
        return [name for name in DISTRIBUTIONS if name != "plain"]

    def _draw(self) -> list[Any]:
        with torch.device(self.device):
            values = self.module.get_inputs()
        return [v.to(self.device) if isinstance(v, torch.Tensor) else v for v in values]

    def _cast(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.to(self.precision)
        return value

    def _describe(self, value: Any) -> InputLeaf:
        if not isinstance(value, torch.Tensor):
            return InputLeaf(scalar=value)
        dtype = self.precision if value.is_floating_point() else value.dtype
        return InputLeaf(dtype=dtype, shape=tuple(value.shape), is_uniform=_is_uniform(value))


def load_module(problem: Problem) -> ModuleType:
    """Execute a problem's source at its size; the module is the oracle's own."""
    module = ModuleType(f"problem_{problem.level}_{problem.problem_id}")
    module.__file__ = str(problem.path or "")
    exec(compile(problem.sized_source, str(problem.path or problem.name), "exec"), module.__dict__)  # noqa: S102
    return module


def _is_uniform(value: torch.Tensor) -> bool:
    if not value.is_floating_point() or value.numel() < 64:
        return False
    sample = value.reshape(-1)[: 1 << 22].float()
    low, high = sample.aminmax()
    spread = 4 * _UNIFORM_STD / sample.numel() ** 0.5 + 1e-3
    return bool(
        low >= 0
        and high < 1.0 + 1e-6
        and abs(sample.mean().item() - _UNIFORM_MEAN) < spread
        and abs(sample.std().item() - _UNIFORM_STD) < spread
    )


def _nudge(x: torch.Tensor) -> torch.Tensor:
    return x.mul_(torch.empty_like(x).uniform_(1 - _ULP, 1 + _ULP))


def _bend(value: torch.Tensor, how: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Apply an in-place change in pieces along the first axis, to bound the memory that it takes beside."""
    if how is _rows or value.dim() == 0:
        how(value)
        return
    for piece in torch.split(value, max(1, _PIECE * len(value) // max(value.numel(), 1))):
        how(piece)
