"""Where a server judges: its devices by name, and what their verdicts hang on beside kernel and settings."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from leaderboard.serve.workers import WorkerDevice
from leaderboard.stages.engines import EvaluationError, gpu_of, open_place, visible_gpus


def devices_of(engine: str, device: str, gpus: Sequence[int] | None) -> list[WorkerDevice]:
    """List the places to judge; raise EvaluationError where there is none, or they are of several models.

    A cluster is joined and left: the processes that judge join it anew.
    """
    if engine == "ray":
        open_place(engine, device, gpus=gpus)
        import ray

        ray.shutdown()
        return [WorkerDevice(name="ray", engine="ray")]
    if engine != "local":
        raise EvaluationError(f"--engine must be local or ray, got {engine!r}")
    if device == "cpu":
        return [WorkerDevice(name="cpu")]
    gpu_of(device, gpus)
    return [WorkerDevice(name=f"gpu{index}", gpus=(index,)) for index in gpus or range(len(visible_gpus()))]


def place_of(engine: str, device: str, gpus: Sequence[int] | None = None) -> str:
    """Name what runs kernels: the device's model and torch's version; of a cluster what it is asked for.

    A cluster of which no model is asked may have another with the next start: each has a name of its own.
    """
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = ""
    models = sorted(set(visible_gpus(gpus))) if device == "cuda" and engine == "local" else [device]
    where = (os.environ.get("KERNELBENCH_RAY_GPU") or uuid.uuid4().hex) if engine == "ray" else _processor()
    return " ".join([engine, where, *models, torch])


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
