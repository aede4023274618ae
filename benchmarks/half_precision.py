"""What does the tolerance of bf16 boards tell apart? Every problem in bf16, and twins made coarser.

    python benchmarks/half_precision.py                    all problems at reduced sizes on the CPU
    python benchmarks/half_precision.py --device cuda      at full size
    python benchmarks/half_precision.py --only 1_1 2_40

Each twin is the reference in bf16, on inputs and weights with fewer digits, with sums that are rounded on the
way, or with elements left out; `exact` is float64 on the same bf16 inputs and weights. Two figures for each:
its largest error in tolerances, as judging has them, and its distance from `exact` in those of PyTorch's own
bf16 (root mean squares). Continues where it was stopped; writes results/half-precision-<device>.json.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "KernelBench"), str(ROOT)]

from kernel_evaluator.candidate.exact import run_exactly  # noqa: E402
from kernel_evaluator.numerics import compare  # noqa: E402
from kernel_evaluator.problems.problem_set import Problem, ProblemSet, read_sizes  # noqa: E402
from kernel_evaluator.proofs import twins  # noqa: E402
from kernel_evaluator.proofs.examination import Examination  # noqa: E402
from kernel_evaluator.proofs.runs import leaves  # noqa: E402
from kernel_evaluator.proofs.sharpness import survey_sha256  # noqa: E402
from tqdm import tqdm  # noqa: E402

from leaderboard.files import store  # noqa: E402
from leaderboard.stages.boards import read_ranked  # noqa: E402

SEED = 404
DISTRIBUTIONS = ("upstream", "signed")
FOUR_BITS = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
BLOCK = 32
SUMMED = 64
"""So many products are summed exactly before the sum is rounded to bf16, in the twin that rounds sums."""
FAULTS = (RuntimeError, NotImplementedError, TypeError, ValueError)


def main() -> None:
    """Look at each problem that was not looked at by these inputs and tolerances, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", nargs="*", default=sorted(read_ranked(), key=_order))
    chosen = parser.parse_args()
    path = ROOT / f"benchmarks/results/half-precision-{chosen.device}.json"
    known = json.loads(path.read_text()) if path.is_file() else {}
    found = known.get("problems", {}) if known.get("survey_sha256") == survey_sha256() else {}
    for key in tqdm(chosen.only):
        if key in found:
            continue
        problem = ProblemSet().load(*map(int, key.split("_")))
        problem = problem.reduced(read_sizes()) if chosen.device == "cpu" else problem
        try:
            found[key] = seen(problem, chosen.device)
        except FAULTS as error:
            found[key] = {"error": f"{type(error).__name__}: {error}"[:200]}
        values = {"survey_sha256": survey_sha256(), "problems": dict(sorted(found.items(), key=_order))}
        store.write_atomically(path, json.dumps(values, indent=0) + "\n")
    print("\n".join(table(found)))


def _order(item: Any) -> list[int]:
    return [*map(int, (item if isinstance(item, str) else item[0]).split("_"))]


def seen(problem: Problem, device: str) -> dict[str, Any]:
    """Each twin's worst error in tolerances and its multiple of PyTorch's own error, by distribution."""
    exam = Examination(problem, device, "bf16")
    exam.model = exam.build("affine")
    there = exam.source.distributions()
    return {name: _seen(exam, name) for name in DISTRIBUTIONS if name in there}


def _seen(exam: Examination, distribution: str) -> dict[str, Any]:
    inputs = exam.draw(SEED, distribution)
    expected = exam.run(inputs, SEED)
    tolerances = exam.tolerances(distribution, SEED, inputs, expected)
    if any(tolerance is None for tolerance in tolerances):
        return {}
    torch.manual_seed(SEED)
    with torch.no_grad():
        output = run_exactly(exam.model, inputs, torch.float64)
    exact = leaves(output)
    own = _distance(expected, exact)
    found: dict[str, Any] = {}
    for name, twin in {"exact": None, **TWINS}.items():
        try:
            given = [value.to(torch.bfloat16) for value in exact] if twin is None else twin(exam, inputs)
        except FAULTS:
            continue
        pairs = zip(expected, given, tolerances, strict=True)
        worst = max(compare.compare(right, other, tolerance).worst for right, other, tolerance in pairs)
        multiple = _distance(given, exact) / own if own else 0.0
        found[name] = [float(f"{min(value, 1e9):.3g}") for value in (worst, multiple)]
    return found


def _distance(given: list[torch.Tensor], exact: list[torch.Tensor]) -> float:
    pairs = zip(given, exact, strict=True)
    squares = [(one.double() - other.double()).square().sum() for one, other in pairs]
    return float(torch.stack(squares).sum().sqrt())


def _four_bits(value: torch.Tensor) -> torch.Tensor:
    """One bit of fraction, two of exponent, one scale for each 32 elements."""
    flat = F.pad(value.float().reshape(-1), (0, -value.numel() % BLOCK)).view(-1, BLOCK)
    scale = flat.abs().amax(1, keepdim=True).clamp(min=1e-30) / float(FOUR_BITS[-1])
    middles = (FOUR_BITS[1:] + FOUR_BITS[:-1]) / 2
    grid, middles = FOUR_BITS.to(value.device), middles.to(value.device)
    rounded = grid[torch.bucketize((flat / scale).abs(), middles)] * flat.sign() * scale
    return rounded.view(-1)[: value.numel()].view(value.shape).to(value.dtype)


def _on_fewer_digits(
    exam: Examination, inputs: list[Any], how: Callable[[torch.Tensor], torch.Tensor]
) -> list[torch.Tensor]:
    model = copy.deepcopy(exam.model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(how(parameter))
    return exam.run([how(v) if _is_bf16(v) else v for v in inputs], SEED, model)


def _is_bf16(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype is torch.bfloat16


class RoundedSums(TorchFunctionMode):
    """Products whose sums are rounded to bf16 after each 64 terms."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ("matmul", "__matmul__", "bmm", "mm") and args[0].dim() > 1 and args[1].dim() > 1:
            left, right = args[0], args[1]
            return self._summed(left.split(SUMMED, -1), right.split(SUMMED, -2), torch.matmul)
        if name == "linear":
            given = dict(zip(("input", "weight", "bias"), args, strict=False)) | kwargs
            left, right, bias = given["input"], given["weight"], given.get("bias")
            total = self._summed(left.split(SUMMED, -1), right.split(SUMMED, -1), F.linear)
            return total if bias is None else total + bias
        return func(*args, **kwargs)

    def _summed(self, lefts: Any, rights: Any, product: Callable[..., torch.Tensor]) -> torch.Tensor:
        total = product(lefts[0], rights[0])
        for left, right in zip(lefts[1:], rights[1:], strict=True):
            total = total + product(left, right)
        return total


def _with_rounded_sums(exam: Examination, inputs: list[Any]) -> list[torch.Tensor]:
    with RoundedSums():
        return exam.run(inputs, SEED)


def _one_in_64_left_out(exam: Examination, inputs: list[Any]) -> list[torch.Tensor]:
    return exam.run([twins.skip(v) if _is_bf16(v) else v for v in inputs], SEED)


TWINS: dict[str, Callable[[Examination, list[Any]], list[torch.Tensor]]] = {
    "sums rounded to bf16": _with_rounded_sums,
    "fp8": partial(_on_fewer_digits, how=partial(twins.rounded, to="fp8")),
    "4 bits": partial(_on_fewer_digits, how=_four_bits),
    "one in 64 left out": _one_in_64_left_out,
}


def table(found: dict[str, Any]) -> list[str]:
    """How many problems each twin passes, on usual inputs and on all, and its multiples."""
    sighted = [each for each in found.values() if "error" not in each and any(each.values())]
    lines = ["| twin | problems | passes on usual inputs | passes on all | multiple of bf16's own error |"]
    lines += ["|---|--:|--:|--:|---|"]
    for name in ("exact", *TWINS):
        with_it = [each for each in sighted if any(name in seen for seen in each.values())]
        usual = sum(each.get("upstream", {}).get(name, [9])[0] <= 1 for each in with_it)
        everywhere = sum(all(s[name][0] <= 1 for s in each.values() if name in s) for each in with_it)
        multiples = sorted(s[name][1] for each in with_it for s in each.values() if name in s)
        last = len(multiples) - 1
        spread = ", ".join(f"{multiples[int(share * last)]:.3g}" for share in (0.05, 0.5, 0.95))
        lines.append(f"| {name} | {len(with_it)} | {usual} | {everywhere} | {spread} |")
    return lines


if __name__ == "__main__":
    main()
