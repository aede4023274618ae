"""Tensors that have a shape and no memory, and say they lie on a GPU: what a model is called on to build.

Untrusted side: a kernel that is called so can only save itself time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_GPU, _NOWHERE = torch.device("cuda:0"), torch.device("meta")

MULTIPROCESSORS = {(8, 0): 108, (8, 6): 84, (8, 9): 142, (9, 0): 132, (10, 0): 148}
"""Of the usual data-centre card of an architecture. A kernel that asks on another builds in vain."""

_SAID: dict[Any, Callable[[torch.Tensor], Any]] = {
    torch.Tensor.device.__get__: lambda tensor: _GPU,
    torch.Tensor.is_cuda.__get__: lambda tensor: True,  # type: ignore[attr-defined]
    torch.Tensor.is_cpu.__get__: lambda tensor: False,  # type: ignore[attr-defined]
    torch.Tensor.is_meta.__get__: lambda tensor: False,  # type: ignore[attr-defined]
    torch.Tensor.get_device: lambda tensor: 0,
    torch.Tensor.cuda: lambda tensor: tensor,
    torch.Tensor.cpu: lambda tensor: tensor,
    torch.Tensor.data_ptr: lambda tensor: tensor.storage_offset() * tensor.element_size(),
}


class OnNoData(TorchFunctionMode):
    """Within this tensors have no memory, whatever device is asked for, and say `cuda:0` of themselves."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Answer what is asked of a tensor; let torch do the rest, which sees the truth."""
        if func in _SAID:
            return _SAID[func](args[0])
        given = dict(kwargs or {})
        if given.get("device") is not None:
            given["device"] = _NOWHERE
        if func is torch.Tensor.to:
            args = [_NOWHERE if _names_a_device(each) else each for each in args]
        return func(*args, **given)


def call(model_class: Callable[..., torch.nn.Module], problem_source: str, precision: torch.dtype) -> None:
    """Make the model of a problem and call it, in a precision, on no data."""
    problem: dict[str, Any] = {}
    exec(problem_source, problem)  # noqa: S102 (the problem set's own source)
    with torch.device(_NOWHERE), OnNoData(), torch.no_grad():
        model = model_class(*problem["get_init_inputs"]()).to(precision)
        model(*(_in_precision(each, precision) for each in problem["get_inputs"]()))


def pretend_gpu(capability: tuple[int, int]) -> None:
    """Answer the questions that sources ask of a GPU; there is none behind them."""
    properties = SimpleNamespace(
        major=capability[0],
        minor=capability[1],
        multi_processor_count=MULTIPROCESSORS.get(capability, 0),
        warp_size=32,
    )
    answers = {
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "get_device_capability": capability,
        "get_device_properties": properties,
        "current_stream": SimpleNamespace(cuda_stream=0, device=_GPU),
        "device": nullcontext(),
        "set_device": None,
        "synchronize": None,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *_args, _answer=answer, **_kwargs: _answer)


def _names_a_device(value: object) -> bool:
    return isinstance(value, torch.device | str)


def _in_precision(value: Any, precision: torch.dtype) -> Any:
    return value.to(precision) if isinstance(value, torch.Tensor) and value.is_floating_point() else value
