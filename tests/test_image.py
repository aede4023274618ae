"""What is recorded of building the board's image: it is the `Containerfile` as it lies here, and all of it works."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from kernel_evaluator.engines import epoch, image

ROOT = Path(__file__).resolve().parent.parent
FOUND = json.loads((ROOT / "benchmarks/results/image-cpu.json").read_text("utf-8"))


def test_the_containerfile_that_was_built_is_this_one() -> None:
    ours = hashlib.sha256((ROOT / "Containerfile").read_bytes()).hexdigest()
    assert ours == FOUND["containerfile_sha256"], "build it: python benchmarks/image.py --write"


def test_only_what_torch_brings_for_cuda_was_left_out() -> None:
    brought = [name for name in FOUND["left_out"] if name.startswith(("nvidia-", "cuda-toolkit"))]
    parts = {part.distribution for part in epoch.PARTS}
    assert (brought, parts & set(brought)) == (FOUND["left_out"], set())
    newer_python = {"scipy"}  # the newest is not for Debian's
    assert set(FOUND["other_versions"]) <= {"torch", "nvidia-cuda-runtime", *newer_python}
    assert len(image.LOCK.read_text("utf-8").splitlines()) > 2 * len(brought)


def test_doctor_found_every_part_at_its_version_and_every_wall() -> None:
    lines = {" ".join(line.split()) for line in FOUND["doctor"]}
    for part in epoch.PARTS:
        if part.distribution != "torch":
            assert f"ok {part.name} {part.pin.rpartition('=')[2]}" in lines
    assert "ok walls 9 of 9 stand" in lines
    assert FOUND["doctor_status"] == 0


def test_the_demo_got_the_verdicts_that_it_gets_everywhere() -> None:
    assert FOUND["demo"] == {"correct": 12, "compile_error": 1, "mismatch": 1, "timeout": 1}
