"""Shortcut twins: a reference made cheaper in the ways in which a kernel would cheat.

A twin is a function of a scene: it gives outputs as the reference does, or None where it cannot be made.
What needs no run of the reference is a null answer. Runs references only; never sees a submission.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from kernel_evaluator.proofs import null_answers
from kernel_evaluator.proofs.forgetting import Forgetting, forget_steps
from kernel_evaluator.proofs.linear_softmax import LINEAR_SOFTMAX
from kernel_evaluator.proofs.sampled_sums import SAMPLED_SUMS, STRIDE

LOW_PRECISIONS = {"tf32": 13, "bf16": 16}
"""So many of the 23 bits of a float32's fraction are rounded away."""

EIGHT_BITS_MOST = 448.0
"""The largest number of eight bits, as matrix units take them (e4m3)."""

SKIPPED = 64
"""One in so many elements of the inputs is left out."""

CROWDS = 4
"""Outputs of so many are averaged, where all but what stands out is another's."""

STANDS_OUT = 1.5, 0.95
"""A number stands out that is so many times as far from the middle as such a share is at most."""

LEAST_WORK = 64
"""Where a forward does less for each number that it reads, to look for what stands out is most of it."""

STEPS_TRIED, STEPS_KEPT = 8, 2
"""So many steps of a forward are left out in turn; those whose absence shows least are twins."""

HALF = "half arithmetic"
STEP = "step"
"""How the name of a twin begins that leaves out a step."""

_MISSHAPEN = (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError, AssertionError)
_LEAST = 8

Outputs = list[torch.Tensor]
Run = Callable[[torch.nn.Module, list[Any]], Outputs]


@dataclass(frozen=True, kw_only=True)
class TwinScene:
    """One draw: the model, its inputs and what it gives; another draw from before; how a model is run."""

    model: torch.nn.Module
    run: Run
    inputs: list[Any]
    expected: Outputs
    earlier_inputs: list[Any]
    earlier: Outputs
    run_part: Callable[[int], torch.Tensor | None]


Twin = Callable[[TwinScene], Outputs | None]

Replacements = Mapping[Any, Callable[..., Any]]
"""By function of torch what is called in its place; where that gives None, the function itself is."""


def twins_of(scene: TwinScene, low: torch.dtype | None) -> dict[str, Twin]:
    """Give the twins of a problem by name; `scene` is one usual draw of it.

    `low` is half precision there, where the problem is in more; None where it is in half precision itself.
    """
    found: dict[str, Twin] = {}
    models: dict[str, torch.nn.Module] = {}
    for name in ("tf32", "fp16", "bf16") if low else ("fp8",):
        found[name] = partial(_rounded_twin, how=partial(rounded, to=name), models=models, name=name)
    if low:
        found[HALF] = partial(_half_arithmetic, dtype=low)
    for name in ("fp16", "bf16") if low else ("fp8",):
        kept = f"{name} about the mean"
        found[kept] = partial(_rounded_twin, how=partial(_about_mean, to=name), models=models, name=kept)
    found["one in 64 left out"] = partial(_on_other_inputs, how=skip)
    found["one in 8 read"] = partial(_on_other_inputs, how=_stride)
    found["one in 8 summed"] = partial(_replaced, replacements=SAMPLED_SUMS)
    for axis in (0, -2, -1):
        found[f"half of axis {axis}"] = partial(_on_other_inputs, how=partial(_half, axis=axis))
        found[f"other half of axis {axis}"] = partial(_on_other_inputs, how=partial(_other_half, axis=axis))
        found[f"inner half of axis {axis}"] = partial(_on_other_inputs, how=partial(_inner_half, axis=axis))
    if _work(scene) >= LEAST_WORK:
        for axis in (0, -1):
            found[f"half of axis {axis} but for what stands out"] = partial(_with_usual, axis=axis)
    found["forgetting"] = _forgetful
    found["softmax made linear"] = partial(_replaced, replacements=LINEAR_SOFTMAX)
    for step in _least_steps(scene):
        found[f"{STEP} {step} left out"] = partial(_without_step, step=step)
    found["earlier output for half the batch"] = _half_earlier
    for name, answer in null_answers.NULL_ANSWERS.items():
        found[name] = partial(_null, answer=answer)
    return found


def may_do_nothing(name: str) -> bool:
    """Whether a twin may be the reference itself: what it leaves out may have no effect on any input."""
    return name.startswith(STEP) or name == HALF


def attempt(twin: Twin, scene: TwinScene) -> Outputs | None:
    """What a twin gives; None where it cannot be made, or gives something of another form."""
    try:
        given = twin(scene)
    except _MISSHAPEN:
        return None
    if given is None or len(given) != len(scene.expected):
        return None
    is_alike = all(
        one.shape == other.shape and one.dtype == other.dtype
        for one, other in zip(given, scene.expected, strict=True)
    )
    return given if is_alike else None


def _rounded_twin(
    scene: TwinScene, *, how: Callable[[Any], Any], models: dict[str, torch.nn.Module], name: str
) -> Outputs:
    if name not in models:
        models[name] = copy.deepcopy(scene.model)
        with torch.no_grad():
            for parameter in models[name].parameters():
                parameter.copy_(how(parameter))
    return scene.run(models[name], [how(value) for value in scene.inputs])


def rounded(value: Any, *, to: str) -> Any:
    """A tensor with fewer digits, rounded to the nearest, for fp8 scaled before; anything else as it is."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    if to == "fp8":
        scale = EIGHT_BITS_MOST / value.abs().amax().float().clamp_(min=1e-30)
        return (value.float() * scale).to(torch.float8_e4m3fn).float().div_(scale).to(value.dtype)
    if value.dtype != torch.float32:
        return value
    if to == "fp16":
        return value.half().float()
    bits = LOW_PRECISIONS[to]
    whole = value.contiguous().view(torch.int32)
    odd = (whole >> bits) & 1
    return (odd.add_(whole).add_((1 << (bits - 1)) - 1) & ~((1 << bits) - 1)).view(torch.float32)


def _about_mean(value: Any, *, to: str) -> Any:
    """Rows rounded about their means, with the norms that they had: what rounding adds up to is gone."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.dim() == 0:
        return value
    mean = value.mean(-1, keepdim=True)
    rest = value - mean
    low = rounded(rest, to=to)
    norms = (each.norm(dim=-1, keepdim=True, dtype=torch.float32) for each in (rest, low))
    ratio = torch.nan_to_num(next(norms) / next(norms), nan=1.0, posinf=1.0)
    return torch.addcmul(mean, low, ratio.to(value.dtype))


def _half_arithmetic(scene: TwinScene, *, dtype: torch.dtype) -> Outputs:
    kind = scene.expected[0].device.type
    with torch.autocast(kind, dtype=dtype):
        given = scene.run(scene.model, scene.inputs)
    return [one.to(other.dtype) for one, other in zip(given, scene.expected, strict=True)]


def _on_other_inputs(scene: TwinScene, *, how: Callable[[torch.Tensor], torch.Tensor]) -> Outputs | None:
    inputs = [
        how(value) if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for value in scene.inputs
    ]
    if all(one is other for one, other in zip(inputs, scene.inputs, strict=True)):
        return None
    return scene.run(scene.model, inputs)


def skip(value: torch.Tensor) -> torch.Tensor:
    """Leave out one element in SKIPPED, at places that follow from how many there are."""
    if value.numel() < SKIPPED:
        return value
    drawn = torch.Generator(value.device).manual_seed(value.numel())
    kept = torch.rand(value.shape, generator=drawn, device=value.device) >= 1 / SKIPPED
    return value * kept


def _stride(value: torch.Tensor) -> torch.Tensor:
    if value.numel() < SKIPPED:
        return value
    flat = value.reshape(-1).clone()
    whole = flat[: flat.numel() // STRIDE * STRIDE].view(-1, STRIDE)
    whole.copy_(whole[:, :1].clone().expand_as(whole))
    return flat.view(value.shape)


def _replaced(scene: TwinScene, *, replacements: Replacements) -> Outputs | None:
    mode = Replacing(replacements)
    given = scene.run(_Within(scene.model, mode), scene.inputs)
    return given if mode.count else None


def _forgetful(scene: TwinScene) -> Outputs | None:
    mode = Forgetting()
    given = scene.run(_Within(scene.model, mode), scene.inputs)
    if mode.pieces:
        return given
    return forget_steps(partial(scene.run, scene.model), scene.inputs, scene.expected, mode.calls)


def _half(value: torch.Tensor, *, axis: int) -> torch.Tensor:
    """The second half of an axis a copy of the first."""
    size = _size(value, axis)
    return value if size < _LEAST else _moved(value, axis, source=0, to=size - size // 2, count=size // 2)


def _other_half(value: torch.Tensor, *, axis: int) -> torch.Tensor:
    """The first half of an axis a copy of the second."""
    size = _size(value, axis)
    return value if size < _LEAST else _moved(value, axis, source=size - size // 2, to=0, count=size // 2)


def _inner_half(value: torch.Tensor, *, axis: int) -> torch.Tensor:
    """The two inner quarters of an axis copies of the outer ones."""
    size = _size(value, axis)
    if size < _LEAST:
        return value
    given = _moved(value, axis, source=0, to=size // 4, count=size // 4)
    return _moved(given, axis, source=size - size // 4, to=size // 2, count=size // 4)


def _with_usual(scene: TwinScene, *, axis: int) -> Outputs | None:
    """What several crowds make of an axis's second half, in the mean: where sums even out, all make the same.

    Of a few samples follows what all others give, but for the numbers that stand out in each.
    """
    sums: Outputs = []
    for turn in range(CROWDS):
        given = _on_other_inputs(scene, how=partial(_with_a_crowd, axis=axis, turn=turn))
        if given is None:
            return None
        sums = (
            [one.float() for one in given] if not sums else [a + b for a, b in zip(sums, given, strict=True)]
        )
    return [one.div_(CROWDS).to(other.dtype) for one, other in zip(sums, scene.expected, strict=True)]


def _with_a_crowd(value: torch.Tensor, *, axis: int, turn: int) -> torch.Tensor:
    """All that does not stand out in an axis's second half comes from the first, from a place by the turn."""
    half = _size(value, axis) // 2
    if 2 * half < _LEAST:
        return value
    near, share = STANDS_OUT
    sample = value.reshape(-1)[:: max(1, value.numel() >> 16)].float()
    middle = sample.median()
    far = near * (sample - middle).abs().quantile(share)
    crowd = value.narrow(axis, 0, half).roll(turn * half // CROWDS, axis)
    given = value.clone()
    part = given.narrow(axis, value.shape[axis] - half, half)
    is_usual = ((part - middle).abs_() <= far) & ((crowd - middle).abs_() <= far)
    part.copy_(torch.where(is_usual, crowd, part))
    return given


def _work(scene: TwinScene) -> float:
    """How many operations of matrix units a forward makes for each number that it reads."""
    read = sum(value.numel() for value in scene.inputs if isinstance(value, torch.Tensor))
    with FlopCounterMode(display=False) as counter:
        scene.run(scene.model, scene.inputs)
    return float(counter.get_total_flops()) / max(read, 1)


def _size(value: torch.Tensor, axis: int) -> int:
    """How long an axis is; 0 where there is none, or hardly anything."""
    is_there = value.dim() > (axis if axis >= 0 else -axis - 1) and value.numel() >= SKIPPED
    return value.shape[axis] if is_there else 0


def _moved(value: torch.Tensor, axis: int, *, source: int, to: int, count: int) -> torch.Tensor:
    given = value.clone()
    given.narrow(axis, to, count).copy_(value.narrow(axis, source, count))
    return given


def _half_earlier(scene: TwinScene) -> Outputs | None:
    if any(one.dim() == 0 or len(one) < 2 for one in scene.expected):
        return None
    pairs = zip(scene.expected, scene.earlier, strict=True)
    return [torch.cat([right[: len(right) // 2], then[len(right) // 2 :]]) for right, then in pairs]


def _null(scene: TwinScene, *, answer: Callable[[null_answers.Scene], torch.Tensor | None]) -> Outputs | None:
    given = []
    for at, (right, then) in enumerate(zip(scene.expected, scene.earlier, strict=True)):
        found = answer(
            null_answers.Scene(
                earlier_inputs=scene.earlier_inputs,
                earlier=then,
                inputs=scene.inputs,
                expected=right,
                part=partial(scene.run_part, at),
            )
        )
        if found is None:
            return None
        given.append(found)
    return given


class Replacing(TorchFunctionMode):
    """Within this, functions give what their replacements do. `count` says how often they did."""

    def __init__(self, replacements: Replacements) -> None:
        super().__init__()
        self._replacements = replacements
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        replacement = self._replacements.get(func)
        value = replacement(*args, **(kwargs or {})) if replacement else None
        if value is None:
            return func(*args, **(kwargs or {}))
        self.count += 1
        return value


class _Steps(TorchFunctionMode):
    """Counts the steps of a forward that give a tensor like the one they take, and leaves one out."""

    def __init__(self, left_out: int = -1) -> None:
        super().__init__()
        self.left_out, self.count = left_out, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        value = func(*args, **(kwargs or {}))
        taken = next((each for each in args if isinstance(each, torch.Tensor)), None)
        if taken is None or not isinstance(value, torch.Tensor) or value is taken:
            return value
        if (value.shape, value.dtype) != (taken.shape, taken.dtype) or not value.is_floating_point():
            return value
        self.count += 1
        return taken if self.count - 1 == self.left_out else value


def _without_step(scene: TwinScene, *, step: int) -> Outputs:
    return scene.run(_Within(scene.model, _Steps(step)), scene.inputs)


class _Within(torch.nn.Module):
    """A model within a mode."""

    def __init__(self, model: torch.nn.Module, mode: TorchFunctionMode) -> None:
        super().__init__()
        self.model, self.mode = model, mode

    def forward(self, *inputs: Any) -> Any:
        with self.mode:
            return self.model(*inputs)


def _least_steps(scene: TwinScene) -> list[int]:
    """The steps whose absence shows least on a draw, though it may show on others."""
    counter = _Steps()
    scene.run(_Within(scene.model, counter), scene.inputs)
    effects = []
    for step in _spread(counter.count):
        given = attempt(partial(_without_step, step=step), scene)
        if given is not None:
            effects.append((_effect(scene.expected, given), step))
    return [step for _, step in sorted(effects)[:STEPS_KEPT]]


def _spread(count: int) -> Iterator[int]:
    tried = min(count, STEPS_TRIED)
    yield from (at * count // tried for at in range(tried))


def _effect(expected: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> float:
    pairs = zip(expected, given, strict=True)
    return sum(float((one - other).abs().mean(dtype=torch.float64)) for one, other in pairs if one.numel())
