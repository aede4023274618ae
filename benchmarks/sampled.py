"""A shortcut that bf16's tolerance lets through: what does it gain over its honest twin?

    python benchmarks/sampled.py --work build/sampled

Both are our batch normalisation in Triton (1/33). The cheat takes mean and variance of each plane from an
eighth of its numbers, and from all where one of these is far off. It gains where its interval lies above the
twin's; the exit status is 1 then. Both are judged as samples of one entry, and their verdicts stay in WORK.
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

HONEST, SAMPLED = KernelKey(1, 33, 0), KernelKey(1, 33, 1)
SOURCE = ROOT / "examples" / "founders-triton-bf16" / f"{HONEST}.py"
_MOMENTS = re.compile(r"@triton\.jit\ndef plane_moments_kernel\(.*?\n\n\n", re.DOTALL)
_SAMPLED = """@triton.jit
def moments(x_ptr, first, end, stride, pixels, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    count = tl.zeros([BLOCK], tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    squares = tl.zeros([BLOCK], tl.float32)
    lowest = tl.full([BLOCK], float("inf"), tl.float32)
    highest = tl.full([BLOCK], float("-inf"), tl.float32)
    origin = load(x_ptr + first)
    for start in range(0, end, stride):
        mask = start + lanes < pixels
        x = load(x_ptr + first + start + lanes, mask=mask, other=0.0)
        moved = tl.where(mask, x - origin, 0.0)
        count += tl.where(mask, 1.0, 0.0)
        total += moved
        squares += moved * moved
        lowest = tl.minimum(lowest, moved)
        highest = tl.maximum(highest, moved)
    number = tl.maximum(tl.sum(count, axis=0), 1.0)
    mean = tl.sum(total, axis=0) / number
    variance = tl.sum(squares, axis=0) / number - mean * mean
    away = tl.maximum(tl.max(highest, axis=0) - mean, mean - tl.min(lowest, axis=0))
    return origin + mean, variance, away


@triton.jit
def plane_moments_kernel(x_ptr, mean_ptr, m2_ptr, pixels, BLOCK: tl.constexpr):
    plane = tl.program_id(0).to(tl.int64)
    mean, variance, away = moments(x_ptr, plane * pixels, pixels, 8 * BLOCK, pixels, BLOCK)
    far = away * away > 36.0 * variance
    end = tl.where(far, pixels, 0)
    whole_mean, whole_variance, _ = moments(x_ptr, plane * pixels, end, BLOCK, pixels, BLOCK)
    tl.store(mean_ptr + plane, tl.where(far, whole_mean, mean))
    tl.store(m2_ptr + plane, tl.where(far, whole_variance, variance) * pixels)


"""


def sources() -> dict[KernelKey, str]:
    """The honest kernel, and the cheat made from it."""
    honest = SOURCE.read_text("utf-8")
    sampled, replaced = _MOMENTS.subn(_SAMPLED, honest)
    if replaced != 1:
        sys.exit(f"error: {SOURCE}: has no plane_moments_kernel to replace")
    return {HONEST: honest, SAMPLED: sampled}


def judge(work: Path) -> dict[KernelKey, Row]:
    """Judge both, or take the verdicts from before."""
    entry = work / "sampled.json"
    kernels = {str(key): source for key, source in sources().items()}
    metadata = {"display_name": "sampled", "precision": BF16}
    write_atomically(entry, json.dumps({"metadata": metadata, "kernels": kernels}))
    command = [sys.executable, "-m", "leaderboard", "evaluate", str(entry), "--device", "cuda"]
    subprocess.run([*command, "--work", str(work), "--data", str(work / "none")], check=False)
    rows = {row.key: row for path in work.glob("*/sampled.json") for row in read_result(path).rows}
    if rows.keys() != {HONEST, SAMPLED}:
        sys.exit(f"error: {entry}: was not judged")
    return rows


def main() -> int:
    """Judge both and say what the cheat gains."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "sampled")
    rows = judge(parser.parse_args().work)
    for key, row in rows.items():
        print(key, row.status.value, row.speedup, row.speedup_ci95, row.failure)
    honest, sampled = rows[HONEST].speedup_ci95, rows[SAMPLED].speedup_ci95
    return int(rows[SAMPLED].is_correct and bool(honest and sampled) and sampled[0] > honest[1])


if __name__ == "__main__":
    sys.exit(main())
