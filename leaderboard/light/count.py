"""Counts what problems need as they are posed: their arithmetic by torch's own counter, and their bytes.

Runs the problems of this project, on tensors without memory; never a submission.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kernel_evaluator.problems.problem_set import Problem

from leaderboard.light.roofline import Posed

if TYPE_CHECKING:
    import torch

LESS: Mapping[str, str] = {
    "1_14": "A product of triangular matrices that is cut to a triangle needs a sixth of the full product.",
    "1_15": "A product of triangular matrices that is cut to a triangle needs a sixth of the full product.",
    "2_13": "The mean over the depth of a transposed convolution is one of sums over the depth of its input.",
    "2_14": "The sum over the columns of a product is one product with the sum of the weight's rows.",
    "2_18": "The sum over the columns of a product is one product with the sum of the weight's rows.",
    "2_42": "The mean of a transposed convolution needs the sums of its input and of its weight alone.",
    "2_44": "The mean of a transposed convolution needs sums of its input and of its weight alone.",
    "2_50": "An average of windows of a transposed convolution is one with a smaller kernel.",
    "2_51": "The mean over the columns of a product is one product with the mean of the weight's rows.",
    "2_65": "An average of windows of a convolution is the convolution of averages of its input.",
    "2_98": "The average of neighbouring columns of a product is one with averages of the weight's rows.",
}
"""How a kernel can give a problem's answer with less arithmetic than the reference, where one is known to."""


def count(problem: Problem) -> Posed:
    """Count one problem at full size. Raises what the problem raises."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    model, inputs = _built(problem)
    counter, touched = FlopCounterMode(display=False), set[int]()
    with torch.device("meta"), torch.no_grad(), _noting(touched), counter:
        outputs = model(*inputs)
    held = [*_tensors(inputs), *model.parameters(), *model.buffers()]
    read = _once(item for item in held if _storage(item) in touched)
    written = _once(_tensors(outputs))
    operators = counter.get_flop_counts().get("Global", {})
    return Posed(
        flops=sum(operators.values()),
        conv_flops=sum(flops for name, flops in operators.items() if "convolution" in str(name)),
        floats_read=sum(item.numel() for item in read if item.is_floating_point()),
        other_bytes_read=sum(_bytes(item) for item in read if not item.is_floating_point()),
        floats_written=sum(item.numel() for item in written if item.is_floating_point()),
        other_bytes_written=sum(_bytes(item) for item in written if not item.is_floating_point()),
        less=LESS.get(f"{problem.level}_{problem.problem_id}", ""),
    )


def dump(counted: Mapping[str, Posed]) -> str:
    """Write the file's text, one problem a line."""
    import torch

    facts = {
        key: {name: value for name, value in asdict(item).items() if value != ""}
        for key, item in counted.items()
    }
    lines = [f"    {json.dumps(key)}: {json.dumps(item)}" for key, item in facts.items()]
    version = torch.__version__.split("+")[0]
    return (
        '{\n  "version": 1,\n'
        '  "made_by": "kbl problems roofline --write",\n'
        f'  "source": "torch.utils.flop_counter of torch {version}, on the device meta",\n'
        '  "problems": {\n' + ",\n".join(lines) + "\n  }\n}\n"
    )


def _noting(touched: set[int]) -> Any:
    """Give a context in which the memory that operators are handed is noted."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Noting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own is untyped
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            touched.update(_storage(item) for item in _tensors((args, kwargs or {})))
            return func(*args, **(kwargs or {}))

    return Noting()  # type: ignore[no-untyped-call]


def _built(problem: Problem) -> tuple[torch.nn.Module, list[Any]]:
    import torch

    names: dict[str, Any] = {"__name__": "problem"}
    with torch.device("meta"):
        exec(compile(problem.source, str(problem.path), "exec"), names)  # noqa: S102 -- our own problems
        model = names["Model"](*names["get_init_inputs"]()).eval()
        return model, list(names["get_inputs"]())


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    import torch
    from torch.utils._pytree import tree_leaves

    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))


def _once(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Keep one of the tensors that share memory: the largest."""
    kept: dict[int, torch.Tensor] = {}
    for item in sorted(tensors, key=lambda tensor: tensor.numel()):
        kept[_storage(item)] = item
    return list(kept.values())


def _storage(item: torch.Tensor) -> int:
    return int(item.untyped_storage()._cdata)


def _bytes(item: torch.Tensor) -> int:
    return item.numel() * item.element_size()
