"""Shortcuts that the tolerance of bf16 may let through: what do they gain over their honest twins?

    python benchmarks/sampled.py --work build/sampled

A mean squared error of every eighth row (1/94). And a batch normalisation in Triton with mean and variance
of an eighth of the numbers, and of all where one that it saw is far off (1/33). A cheat gains where its
interval lies above its twin's; the exit status is 1 then. All are judged as samples of one entry, and their
verdicts stay in WORK.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "KernelBench"), str(ROOT)]

from kernel_evaluator.records.keys import KernelKey  # noqa: E402
from kernel_evaluator.records.rows import BF16, Row  # noqa: E402

from leaderboard.files.store import read_result, write_atomically  # noqa: E402

PROBLEMS = 33, 94

_LOSS = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, predictions, targets):
        return torch.mean((predictions{0} - targets{0}) ** 2)
"""
_NORM = ROOT / "examples" / "founders-triton-bf16" / f"{KernelKey(1, 33, 0)}.py"
_MOMENTS = re.compile(r"@triton\.jit\ndef plane_moments_kernel\(.*?\n\n\n", re.DOTALL)
_SAMPLED = """@triton.jit
def moments(x_ptr, first, end, stride, pixels, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    count = tl.zeros([BLOCK], tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    squares = tl.zeros([BLOCK], tl.float32)
    largest = tl.zeros([BLOCK], tl.float32)
    origin = load(x_ptr + first)
    for start in range(0, end, stride):
        mask = start + lanes < pixels
        x = load(x_ptr + first + start + lanes, mask=mask, other=0.0)
        moved = tl.where(mask, x - origin, 0.0)
        count += tl.where(mask, 1.0, 0.0)
        total += moved
        squares += moved * moved
        largest = tl.maximum(largest, tl.abs(moved))
    number = tl.maximum(tl.sum(count, axis=0), 1.0)
    mean = tl.sum(total, axis=0) / number
    variance = tl.sum(squares, axis=0) / number - mean * mean
    return origin + mean, variance, tl.max(largest, axis=0)


@triton.jit
def sampled_kernel(x_ptr, mean_ptr, m2_ptr, far_ptr, pixels, BLOCK: tl.constexpr):
    plane = tl.program_id(0).to(tl.int64)
    mean, variance, away = moments(x_ptr, plane * pixels, pixels, 8 * BLOCK, pixels, BLOCK)
    tl.store(mean_ptr + plane, mean)
    tl.store(m2_ptr + plane, variance * pixels)
    tl.store(far_ptr + plane, tl.where(away * away > 64.0 * variance, 1.0, 0.0))


@triton.jit
def plane_moments_kernel(x_ptr, mean_ptr, m2_ptr, far_ptr, pixels, PLANES: tl.constexpr, BLOCK: tl.constexpr):
    plane = tl.program_id(0).to(tl.int64)
    planes = tl.arange(0, PLANES)
    far = tl.max(tl.load(far_ptr + planes, mask=planes < tl.num_programs(0), other=0.0), axis=0) > 0
    mean, variance, _ = moments(x_ptr, plane * pixels, tl.where(far, pixels, 0), BLOCK, pixels, BLOCK)
    tl.store(mean_ptr + plane, mean, mask=far)
    tl.store(m2_ptr + plane, variance * pixels, mask=far)


"""
_CALL = "plane_moments_kernel[(batch * channels,)](x, *moments, pixels, BLOCK=4096, num_warps=8)"
_CALLS = """far = torch.empty(batch * channels, device=x.device, dtype=torch.float32)
        sampled_kernel[(batch * channels,)](x, *moments, far, pixels, BLOCK=4096, num_warps=8)
        many = triton.next_power_of_2(batch * channels)
        every = {"PLANES": many, "BLOCK": 4096, "num_warps": 8}
        plane_moments_kernel[(batch * channels,)](x, *moments, far, pixels, **every)"""


def twins() -> dict[KernelKey, str]:
    """Of each problem the honest kernel, as sample 0, and the cheat."""
    norm = _NORM.read_text("utf-8")
    if len(_MOMENTS.findall(norm)) != 1 or _CALL not in norm:
        sys.exit(f"error: {_NORM}: has no plane_moments_kernel to replace")
    return {
        KernelKey(1, 33, 0): norm,
        KernelKey(1, 33, 1): _MOMENTS.sub(lambda _: _SAMPLED, norm).replace(_CALL, _CALLS),
        KernelKey(1, 94, 0): _LOSS.format(""),
        KernelKey(1, 94, 1): _LOSS.format("[::8]"),
    }


def judge(work: Path) -> dict[KernelKey, Row]:
    """Judge all, or take the verdicts from before."""
    entry, kernels = work / "sampled.json", twins()
    metadata = {"display_name": "sampled", "precision": BF16}
    sent = {str(key): source for key, source in kernels.items()}
    write_atomically(entry, json.dumps({"metadata": metadata, "kernels": sent}))
    command = [sys.executable, "-m", "leaderboard", "evaluate", str(entry), "--device", "cuda"]
    subprocess.run([*command, "--work", str(work), "--data", str(work / "none")], check=False)
    rows = {row.key: row for path in work.glob("*/sampled.json") for row in read_result(path).rows}
    if rows.keys() != kernels.keys():
        sys.exit(f"error: {entry}: was not judged")
    return rows


def main() -> int:
    """Judge all and say what each cheat gains."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "sampled")
    rows = judge(parser.parse_args().work)
    for key, row in rows.items():
        print(key, row.status.value, row.speedup, row.speedup_ci95, row.failure and row.failure.message)
    gains = 0
    for problem_id in PROBLEMS:
        honest, cheat = (rows[KernelKey(1, problem_id, sample)] for sample in (0, 1))
        ours, theirs = honest.speedup_ci95, cheat.speedup_ci95
        gains += cheat.is_correct and bool(ours and theirs) and theirs[0] > ours[1]
    return int(gains > 0)


if __name__ == "__main__":
    sys.exit(main())
