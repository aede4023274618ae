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
from torch.overrides import TorchFunctionMode

from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.problems.seeding import seed_all

PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

NUDGE = 2.0**-21
"""A nudge moves a value by at most this share of it: about an ulp."""

_PIECE = 1 << 27
_FEW = 64
_FEW_NEEDLES, _NEEDLE_IN = 4, 1 << 14
_SPIKE_IN = 1 << 10
_OFTEN, _COIN = 0.5, 0x40
_KEPT_BITS, _SET_BITS = ~0xFFFF | 0x1F, 0x6FE0
_UNIFORM = (torch.rand, torch.rand_like)


def _scaled(x: torch.Tensor, factor: float, offset: float) -> torch.Tensor:
    """factor * x + offset, in one pass over what may be gigabytes."""
    return torch.add(x.new_full((), offset), x, alpha=factor, out=x)


def _signed(x: torch.Tensor) -> torch.Tensor:
    return _scaled(x, 2, -1)


def _heavy_tail(x: torch.Tensor) -> torch.Tensor:
    return x.sub_(0.5).mul_(torch.empty_like(x).exponential_(1 / 3))


def _rows(x: torch.Tensor) -> torch.Tensor:
    if x.dim() == 0 or x.shape[0] < 2:
        return x
    slope = torch.linspace(-1, 1, x.shape[0], device=x.device, dtype=x.dtype)
    return torch.add(slope.view(-1, *[1] * (x.dim() - 1)), x, alpha=0.5, out=x)


def _spikes(x: torch.Tensor) -> torch.Tensor:
    """One in so many at secret places is a hundred times as large."""
    flat = _signed(x).view(-1)
    # As many as come to that share on average, where there are few elements too.
    count = int(flat.numel() / _SPIKE_IN + torch.rand((), device="cpu").item())
    at = torch.randint(flat.numel(), (count,), device=x.device)
    flat[at] = flat[at] * 100
    return x


def _needles(x: torch.Tensor) -> torch.Tensor:
    """A few elements at secret places weigh as much as all others, in a sum as in a sum of squares."""
    return _with_weighty(x, max(_FEW_NEEDLES, x.numel() // _NEEDLE_IN))


def _few_needles(x: torch.Tensor) -> torch.Tensor:
    """So few that who reads a part of all mostly sees none, and not even that there are any."""
    return _with_weighty(x, _FEW_NEEDLES)


def _with_weighty(x: torch.Tensor, count: int) -> torch.Tensor:
    flat = _signed(x).view(-1)
    at = torch.randint(flat.numel(), (count,), device=x.device)
    flat[at] = (flat[at] + flat[at].sign()) * (flat.numel() / count) ** 0.5
    return x


def _pointed(x: torch.Tensor) -> torch.Tensor:
    """Needles among numbers that round to one side: for sums of so many that all else averages out."""
    return _one_sided(_needles(x))


def _one_sided(x: torch.Tensor) -> torch.Tensor:
    """Round always in one direction, to 10 bits of fraction as to 7: bits just under the middle."""
    if x.dtype == torch.float32:
        bits = x.view(torch.int32)
        _sided(bits, out=bits)
    return x


def _sided(bits: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    return torch.bitwise_and(bits, _KEPT_BITS, out=out).bitwise_or_(_SET_BITS)


def _mixed(x: torch.Tensor) -> torch.Tensor:
    """A mixture of its own each time: where numbers lie, how wide, and for each row how large.

    About half of them, one here and one there, round to one side.
    """
    low, wide, uneven = torch.rand(3, device="cpu").tolist()
    scale = 2 * 8**wide
    if uneven < _OFTEN:
        by_row = _by_row(x, -2, 2).mul_(scale)
        torch.addcmul(by_row * -low, x, by_row, out=x)
    else:
        _scaled(x, scale, -low * scale)
    if x.dtype == torch.float32:
        bits = x.view(torch.int32)
        torch.where(bits.bitwise_and(_COIN).bool(), _sided(bits), bits, out=bits)
    return x


def _by_row(x: torch.Tensor, lowest: float, highest: float) -> torch.Tensor:
    """A factor for each row: two to some power, to multiply a tensor with."""
    rows = torch.rand(len(x) if x.dim() else 1, device=x.device, dtype=x.dtype)
    return rows.mul_(highest - lowest).add_(lowest).exp2_().view(-1, *[1] * max(x.dim() - 1, 0))


DISTRIBUTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda x: x,
    "upstream": lambda x: x,
    "signed": _signed,
    "heavy_tail": _heavy_tail,
    "large": lambda x: _scaled(x, 200, -100),
    "small": lambda x: x.div_(100),
    "near_one": lambda x: _scaled(x, 0.5, 0.75),
    "rows": _rows,
    "spikes": _spikes,
    "needles": _needles,
    "few_needles": _few_needles,
    "one_sided": _one_sided,
    "pointed": _pointed,
    "mixed": _mixed,
}
"""How uniform numbers are bent, in place. `plain` and `upstream` leave them: KernelBench's tolerance applies
to the one, the panel's to the other. The last ones break the sameness of rows, regions and magnitudes."""


@dataclass(frozen=True, kw_only=True)
class InputLeaf:
    """One argument of forward: a tensor, or a scalar."""

    dtype: torch.dtype | None = None
    shape: tuple[int, ...] = ()
    scalar: float | int | bool | None = None

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
        source = _Bending(DISTRIBUTIONS["upstream"])
        self.leaves = [self._describe(value) for value in self._draw(source)]
        self._can_be_bent = source.has_drawn

    def init_arguments(self) -> str:
        """The constructor's arguments as a literal, or the source that makes them where they are none."""
        text = repr(list(self.module.get_init_inputs()))
        try:
            ast.literal_eval(text)
        except (SyntaxError, ValueError):
            return self.problem.sized_source
        return text

    def draw(self, seed: int, distribution: str = "upstream", *, nudge: bool = False) -> list[Any]:
        """Draw a fresh set of inputs. `nudge` moves each float by about an ulp: a probe of conditioning.

        With and without it the same is drawn: it takes its random numbers when all others are taken.
        """
        seed_all(seed)
        values = self._draw(_Bending(DISTRIBUTIONS[distribution]))
        for value in values if nudge else []:
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                _bend(value, _nudge)
        return [self._cast(value) for value in values]

    def distributions(self) -> list[str]:
        """The distributions that make a difference: all where anything is uniform, else upstream's."""
        return [name for name in DISTRIBUTIONS if name != "plain"] if self._can_be_bent else ["upstream"]

    def _draw(self, source: _Bending) -> list[Any]:
        with torch.device(self.device), source:
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
        return InputLeaf(dtype=dtype, shape=tuple(value.shape))


class _Bending(TorchFunctionMode):
    """Within this, what `torch.rand` and `rand_like` give is bent before a problem makes anything of it.

    So what is symmetric, triangular or sums to one stays so. Single numbers and the like are left alone.
    """

    def __init__(self, how: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.how = how
        self.has_drawn = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        value = func(*args, **(kwargs or {}))
        if func in _UNIFORM and value.numel() >= _FEW:
            self.has_drawn = True
            _bend(value, self.how)
        return value


def load_module(problem: Problem) -> ModuleType:
    """Execute a problem's source at its size; the module is the oracle's own."""
    module = ModuleType(f"problem_{problem.level}_{problem.problem_id}")
    module.__file__ = str(problem.path or "")
    exec(compile(problem.sized_source, str(problem.path or problem.name), "exec"), module.__dict__)  # noqa: S102
    return module


def _nudge(x: torch.Tensor) -> torch.Tensor:
    return x.mul_(torch.empty_like(x).uniform_(1 - NUDGE, 1 + NUDGE))


def _bend(value: torch.Tensor, how: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Apply an in-place change in pieces along the first axis, to bound the memory that it takes beside."""
    if how is _rows or value.dim() == 0:
        how(value)
        return
    for piece in torch.split(value, max(1, _PIECE * len(value) // max(value.numel(), 1))):
        how(piece)
