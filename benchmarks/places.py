"""How much of an output could a kernel that knows where leave as it is? For every problem of the rank.

    python benchmarks/places.py                  at reduced sizes on the CPU
    python benchmarks/places.py --device cuda    at full size
    python benchmarks/places.py --write          the same, into benchmarks/results/places-<device>.json

An element is replaceable on a draw where zero, a constant or an earlier output is within its tolerance there. By
chance a few always are; a kernel gains by it only where it knows which. So a place counts where it is replaceable
on two independent draws. Inputs and weights are those that are timed, elements that are zero or replaced
exactly are the problem's doing. Exit status: 1 if on some problem more than a hundredth of all places count.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "KernelBench"), str(ROOT)]

from kernel_evaluator.numerics import compare  # noqa: E402
from kernel_evaluator.problems import deciding  # noqa: E402
from kernel_evaluator.problems.problem_set import Problem, ProblemSet, read_sizes  # noqa: E402
from kernel_evaluator.proofs.examination import Examination  # noqa: E402
from leaderboard.stages.boards import read_ranked  # noqa: E402
from tqdm import tqdm  # noqa: E402

SEEDS = (404, 505)
MOST = 0.01
ELEMENTS = 1 << 17
Masks = dict[str, tuple[torch.Tensor, torch.Tensor]]
"""By what replaces an output: where it is within tolerance, and where it could be told from the output."""


def main() -> int:
    """Measure, print the ten largest, and write where asked to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    found = {}
    for key in tqdm(sorted(read_ranked(), key=lambda key: [*map(int, key.split("_"))])):
        problem = ProblemSet().load(*map(int, key.split("_")))
        problem = problem.reduced(read_sizes()) if chosen.device == "cpu" else problem
        found[key] = measured(problem, chosen.device)
    largest = sorted(found, key=lambda key: -found[key]["two_draws"])
    print(f"{len(found)} problems; replaceable by chance on one draw, and on two:")
    for key in largest[:10]:
        print(f"  {key}: {found[key]['one_draw']:.2%}, {found[key]['two_draws']:.3%} ({found[key]['where']})")
    if chosen.write:
        path = ROOT / f"benchmarks/results/places-{chosen.device.upper()}.json"
        path.write_text(json.dumps({"problems": found}, indent=1) + "\n", "utf-8")
    return int(any(seen["two_draws"] > MOST for seen in found.values()))


def measured(problem: Problem, device: str) -> dict[str, Any]:
    """The largest shares over the timed distributions of one problem, and what and where the second is."""
    exam = Examination(problem, device, "fp32")
    deal = deciding.deal_for(problem, exam.source.distributions())
    exam.model = exam.build(deal.variant)
    one, two, where = 0.0, 0.0, ""
    for distribution in deal.shares:
        draws = [list(masks_of(exam, distribution, seed)) for seed in SEEDS]
        for first, second in zip(*draws, strict=True):
            for name in first:
                (within, told), (again, also) = first[name], second[name]
                one = max(one, share(within, told), share(again, also))
                if (both := share(within & again, told & also)) > two:
                    two, where = both, f"{name} on {distribution}"
    return {"one_draw": round(one, 6), "two_draws": round(two, 6), "where": where}


def masks_of(exam: Examination, distribution: str, seed: int) -> Iterator[Masks]:
    """For each output of one draw; one of which rounding says nothing is given as replaceable."""
    inputs = exam.draw(seed, distribution)
    expected = exam.run(inputs, seed)
    earlier = exam.run(exam.draw(seed + 1, distribution), seed + 1)
    tolerances = exam.tolerances(distribution, seed, inputs, expected)
    for right, then, tolerance in zip(expected, earlier, tolerances, strict=True):
        if not right.is_floating_point():
            continue
        flat, other = compare.sample(right, ELEMENTS), compare.sample(then, ELEMENTS)
        answers = {
            "zero": torch.zeros_like(flat),
            "constant": flat[flat != 0].median().expand_as(flat) if bool(flat.any()) else flat,
            "earlier": other,
        }
        yield {
            name: (
                torch.ones_like(flat, dtype=torch.bool)
                if tolerance is None
                else compare.errors(flat, answer, tolerance) <= 1,
                (flat != answer) & (flat != 0),
            )
            for name, answer in answers.items()
        }


def share(within: torch.Tensor, told: torch.Tensor) -> float:
    """The share of what could be told apart that is within tolerance; one element may be by chance."""
    return max(int((within & told).sum()) - 1, 0) / max(int(told.sum()) - 1, 1)


if __name__ == "__main__":
    sys.exit(main())
