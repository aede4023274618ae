"""Makes entries that never were, as real submissions and result files, for the site's benchmark and tests."""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernel_evaluator.records.keys import PROBLEM_COUNTS, RANKED_LEVELS, KernelKey
from kernel_evaluator.records.rows import Environment, Failure, ResultFile, Row, Status, Timing

WORDS = [
    "amber",
    "basil",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "heron",
    "iris",
    "juniper",
    "kelp",
    "lotus",
    "maple",
    "nimbus",
    "onyx",
    "pine",
    "quartz",
]
LABS = (
    "Aurora Lab",
    "Bell Institute",
    "Cobalt",
    "Dune Research",
    "",
    "Ekman Group",
    "Foundry",
    "University of Nowhere",
)
FAILURES = (Status.MISMATCH, Status.COMPILE_ERROR, Status.RUNTIME_ERROR, Status.TIMEOUT, Status.OUT_OF_MEMORY)
LABELS = ((), ("custom",), ("custom",), ("mixed",), ("library",), ("custom", "reduced precision"))
SEED = 7


class SourceMaker:
    """Sources of about 7.8 KB that compress like real ones: lines drawn from a pool of plausible CUDA."""

    def __init__(self, length: int) -> None:
        self._random = random.Random(SEED)
        self._pool = [self._line() for _ in range(4_000)]
        self._lines = max(1, length // 64)

    def make(self, title: str) -> str:
        """Make one source that reads like a kernel."""
        cuda = "\n".join(self._random.choices(self._pool, k=self._lines))
        return (
            f'"""{title}."""\nimport torch\nimport torch.nn as nn\n'
            f"from torch.utils.cpp_extension import load_inline\n\n"
            f'source = r"""\n#include <torch/extension.h>\n'
            f"__global__ void kernel(const float* x, float* y, int n) {{\n"
            f'{cuda}\n}}\n"""\n\n\nclass ModelNew(nn.Module):\n    """Launches the kernel."""\n\n'
            f"    def forward(self, x: torch.Tensor) -> torch.Tensor:\n"
            f"        return op.forward(x)  # {title}\n"
        )

    def _line(self) -> str:
        pick = self._random.choice
        name, other = (f"{pick(WORDS)}_{self._random.randrange(90)}" for _ in range(2))
        number = self._random.randrange(1, 4096)
        return pick(
            (
                f"    float {name} = x[{other} * {number} + threadIdx.x];",
                f"    if ({name} < {number}) {{ y[{name}] = fmaxf({other}, 0.0f); }}",
                f"    // {pick(WORDS)} the {pick(WORDS)} tile of {number} before {other}",
                f"    {name} += __shfl_down_sync(0xffffffff, {other}, {pick((1, 2, 4, 8, 16))});",
                f"    for (int i = 0; i < {number}; ++i) {other} += x[i] * {self._random.random():.3f}f;",
                f"    __shared__ float {name}_{other}[{number}];",
            )
        )


def write_repository(
    root: Path,
    *,
    entries: int,
    gpus: tuple[str, ...] = ("H200",),
    levels: tuple[int, ...] = RANKED_LEVELS,
    most: int = 100,
    source_length: int = 7_800,
    baselines: tuple[str, ...] = (),
) -> None:
    """Write submissions and results of so many entries, `most` problems a level, below `root`.

    The first of them are baselines, where names are given.
    """
    maker = SourceMaker(source_length)
    keys = [
        KernelKey(level, pid) for level in levels for pid in range(1, min(PROBLEM_COUNTS[level], most) + 1)
    ]
    difficulty = {key: random.Random(str(key)).gauss(0.0, 0.25) for key in keys}
    (root / "submissions").mkdir(parents=True, exist_ok=True)
    for number in range(entries):
        chance = random.Random(SEED * 100_003 + number)
        entry = f"{chance.choice(WORDS)}-{chance.choice(WORDS)}-{number:04d}"
        is_baseline = number < len(baselines)
        entry = baselines[number] if is_baseline else entry
        kernels = {str(key): maker.make(f"{entry} {key}") for key in keys if chance.random() < 0.97}
        metadata = _metadata(entry, chance) | ({"baseline": True} if is_baseline else {})
        body = json.dumps({"metadata": metadata, "kernels": kernels}).encode()
        (root / "submissions" / f"{entry}.json").write_bytes(body)
        for gpu in gpus:
            file = make_result(entry, kernels, gpu=gpu, difficulty=difficulty, chance=chance, body=body)
            path = root / "data" / "results" / gpu / f"{entry}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(file.to_json()), "utf-8")


def make_result(
    entry: str,
    kernels: dict[str, str],
    *,
    gpu: str,
    difficulty: dict[KernelKey, float],
    chance: random.Random,
    body: bytes,
) -> ResultFile:
    """Make the result file of one entry whose skill is drawn at random."""
    skill, care = chance.gauss(0.0, 0.3), chance.uniform(0.45, 0.97)
    day = f"2026-{chance.randrange(1, 12):02d}-{chance.randrange(1, 29):02d}"
    rows = tuple(
        _row(key, source, mean=skill - difficulty[key], care=care, chance=chance, day=day)
        for key, source in sorted((KernelKey.parse(name), source) for name, source in kernels.items())
    )
    return ResultFile(
        entry=entry,
        submission_sha256=hashlib.sha256(body).hexdigest(),
        gpu=gpu,
        sizes="full",
        profile="ranked",
        evaluator_version="0.1.0",
        started_at=f"{day}T08:00:00Z",
        finished_at=f"{day}T10:30:00Z",
        environments={
            "a": Environment(
                device=f"NVIDIA {gpu}",
                gpu=gpu,
                driver="580.82",
                cuda="13.0",
                torch="2.13.0",
                triton="3.7.0",
                python="3.11.7",
                image="sha256:" + "ab" * 32,
            )
        },
        rows=rows,
        gpu_seconds=chance.uniform(900, 4000),
        cpu_seconds=chance.uniform(9000, 20000),
    )


def _metadata(entry: str, chance: random.Random) -> dict[str, Any]:
    return {
        "display_name": entry.replace("-", " ").title(),
        "organization": chance.choice(LABS),
        "backend": chance.choice(("cuda", "triton", "cuda")),
        "precision": "fp32",
        "notes": "A synthetic entry: no model wrote it.",
        "url": "https://example.org/" + entry,
        "generation": {
            "model": entry.split("-", maxsplit=1)[0],
            "temperature": 0.7,
            "samples": 1,
            "scaffold": entry.split("-")[1],
            "cost_usd": 12.5,
        },
    }


def _row(key: KernelKey, source: str, *, mean: float, care: float, chance: random.Random, day: str) -> Row:
    digests = {
        "kernel_sha256": hashlib.sha256(source.encode()).hexdigest(),
        "problem_sha256": hashlib.sha256(str(key).encode()).hexdigest(),
        "evaluator_sha256": "e" * 64,
        "environment": "a",
        "trials_asked": 5,
        "gpu_seconds": 6.0,
        "finished_at": f"{day}T09:00:00Z",
    }
    if chance.random() > care:
        return _failed_row(key, digests, chance)
    speedup = math.exp(mean + chance.gauss(0, 0.35))
    reference = 2.0 * math.exp(random.Random(f"t{key}").gauss(0, 1.2))
    half = abs(chance.gauss(0.01, 0.01)) + 0.002
    return Row(
        key=key,
        status=Status.CORRECT,
        trials_passed=5,
        worst_error=chance.random() * 0.6,
        speedup=speedup,
        speedup_ci95=(speedup * (1 - half), speedup * (1 + half)),
        runtime_ms=_timing(reference / speedup),
        reference_ms=_timing(reference),
        second_clock_ms=reference / speedup * 1.002,
        clock_disagreement=0.002,
        labels=chance.choice(LABELS),
        **digests,
    )


def _failed_row(key: KernelKey, digests: dict[str, Any], chance: random.Random) -> Row:
    if chance.random() < 0.03:
        evidence = {"seed": 8123, "distribution": "normal", "index": [3, 14], "expected": 0.731, "found": 0.0}
        failure = Failure(name="replay", message="the output did not follow the inputs")
        return Row(
            key=key, status=Status.REJECTED, failure=failure, evidence=evidence, trials_passed=3, **digests
        )
    status = chance.choice(FAILURES)
    log = f'kernel.cu({chance.randrange(200)}): error: identifier "{chance.choice(WORDS)}" is undefined\n' * 3
    failure = Failure(name=status.value, message=f"{status.value} in {key}", log=log)
    return Row(key=key, status=status, failure=failure, trials_passed=0, **digests)


def _timing(median: float) -> Timing:
    return Timing(
        median=median, mean=median * 1.001, std=median * 0.004, min=median * 0.99, max=median * 1.03, n=64
    )


def read_submissions(root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each submission's name and content below `root`."""
    for path in sorted((root / "submissions").glob("*.json")):
        yield path.stem, json.loads(path.read_text("utf-8"))
