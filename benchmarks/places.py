"""How much of an output could a kernel that knows where leave as it is? For every problem.

    python benchmarks/places.py                             at reduced sizes on the CPU
    python benchmarks/places.py --sizes full --only 3_48    where a problem is decided at full size alone
    python benchmarks/places.py --sizes full --device cuda
    python benchmarks/places.py --write                     the same, into KernelBench/places.json
    python benchmarks/places.py --out FILE                  the same, into FILE, but for what it holds already
    python benchmarks/places.py --only --out FILE --write   what FILE holds, from another machine, alone

An element is replaceable on a draw where zero, a constant or an earlier output is within its tolerance there.
By chance a few always are; a kernel gains by it only where it knows which. So a place counts where it is
replaceable on two independent draws. Weights are those that are timed, inputs those that decide: of the timed
calls nearly all. Elements that are zero or replaced exactly are the problem's doing. Problems on which more
than a hundredth of all places count are not ranked: `leaderboard/stages/boards.py` reads the file. Full size
tells more than a reduced one; of two that were found at full size the larger share stays.
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
from tqdm import tqdm  # noqa: E402

from leaderboard.files import store  # noqa: E402
from leaderboard.stages.boards import PLACES, read_deals  # noqa: E402

SEEDS = (404, 505)
ELEMENTS = 1 << 17
Masks = dict[str, tuple[torch.Tensor, torch.Tensor]]
"""By what replaces an output: where it is within tolerance, and where it could be told from the output."""


def main() -> None:
    """Measure, print the ten largest, and write where asked to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--sizes", choices=["reduced", "full"], default="reduced")
    parser.add_argument("--only", nargs="*", default=sorted(read_deals()), help="problems, as 2_42")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    found = known(chosen.out) if chosen.out else {}
    for key in tqdm([key for key in chosen.only if key not in found]):
        problem = ProblemSet().load(*map(int, key.split("_")))
        try:
            seen = measured(
                problem if chosen.sizes == "full" else problem.reduced(read_sizes()), chosen.device
            )
        except torch.cuda.OutOfMemoryError as error:
            tqdm.write(f"{key}: not measured: {error}")
            continue
        finally:
            torch.cuda.empty_cache()
        if seen is not None:
            found[key] = {"sizes": chosen.sizes, "device": chosen.device, **seen}
        if chosen.out:
            write(chosen.out, found)
    print(f"{len(found)} problems are decided; replaceable by chance on one draw, and on two:")
    for key in sorted(found, key=lambda key: -found[key]["two_draws"])[:10]:
        print(f"  {key}: {found[key]['one_draw']:.2%}, {found[key]['two_draws']:.3%} ({found[key]['where']})")
    if chosen.write:
        write(PLACES, put_together(known(PLACES), found))


def known(path: Path) -> dict[str, Any]:
    """What a file says of each problem; nothing where there is none."""
    problems: dict[str, Any] = json.loads(path.read_text("utf-8"))["problems"] if path.is_file() else {}
    return problems


def put_together(before: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Of what is known of each problem and what was found what tells more, else the later."""
    return before | {
        key: said
        for key, said in found.items()
        if key not in before or _telling(said) >= _telling(before[key])
    }


def _telling(said: dict[str, Any]) -> tuple[bool, float]:
    is_full = said["sizes"] == "full"
    return is_full, said["two_draws"] if is_full else 0.0


def write(path: Path, found: dict[str, Any]) -> None:
    """Write what was found, a line for each problem, in their order."""
    problems = sorted(found.items(), key=lambda item: [*map(int, item[0].split("_"))])
    lines = ",\n".join(f'  "{key}": {json.dumps(seen)}' for key, seen in problems)
    store.write_atomically(path, f'{{\n "problems": {{\n{lines}\n }}\n}}\n')


def measured(problem: Problem, device: str) -> dict[str, Any] | None:
    """The largest shares over the deciding distributions of a problem, and what and where the second is.

    None where nothing decides the problem in this size.
    """
    exam = Examination(problem, device, "fp32")
    deal = deciding.deal_for(problem, exam.source.distributions())
    if deal.undecided:
        return None
    exam.model = exam.build(deal.variant)
    one, two, where = 0.0, 0.0, ""
    for distribution in (name for name, of in deal.shares.items() if of == max(deal.shares.values())):
        draws = [list(masks_of(exam, distribution, seed)) for seed in SEEDS]
        for first, second in zip(*draws, strict=True):
            for name in first:
                (within, told), (again, also) = first[name], second[name]
                one = max(one, share(within, told), share(again, also))
                if (both := share(within & again, told & also)) > two:
                    two, where = both, f"{name} on {distribution}"
    return {"one_draw": round(one, 6), "two_draws": round(two, 6), "where": where}


def masks_of(exam: Examination, distribution: str, seed: int) -> Iterator[Masks]:
    """For each output of one draw; one of which rounding says nothing is replaceable everywhere."""
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
    main()
