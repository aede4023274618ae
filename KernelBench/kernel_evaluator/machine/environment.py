"""What this machine is: the facts recorded with every result. Reads only."""

from __future__ import annotations

import os
import platform
import re
from functools import cache
from importlib import metadata
from pathlib import Path

import torch

from kernel_evaluator.machine.figures import gpu_model
from kernel_evaluator.records.rows import Environment


def describe_device(device: str, walls: tuple[str, ...], *, shared: bool) -> Environment:
    """Describe the current device, the versions in use and the walls around candidates."""
    memory = ("shared-memory" if shared else "host-copies",)
    name = torch.cuda.get_device_name() if device == "cuda" else _processor()
    return Environment(
        device=name,
        gpu=gpu_model(name) if device == "cuda" else "CPU",
        driver=_driver(),
        cuda=torch.version.cuda or torch.version.hip or "",
        torch=torch.__version__,
        triton=_version("triton"),
        python=platform.python_version(),
        image=os.environ.get("KERNELBENCH_IMAGE", ""),
        host=f"{platform.system()} {platform.release()}, {os.cpu_count()} processors",
        isolation=tuple(sorted({*walls, *memory})),
    )


@cache
def _processor() -> str:
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    match = re.search(r"model name\s*:\s*(.+)", text)
    return match[1].strip() if match else platform.processor() or platform.machine()


@cache
def _driver() -> str:
    path = Path("/proc/driver/nvidia/version")
    match = (
        re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", path.read_text()) if path.exists() else None
    )
    return match[1] if match else ""


@cache
def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
