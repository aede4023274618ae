"""Lists the GPUs of this machine by asking the maker's own tool, so that no context is created on any.

The AMD half reads `amd-smi` or `rocm-smi`; tests cover it with recorded answers. It has not run on hardware.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

NVIDIA = ("nvidia-smi", "--query-gpu=name,uuid", "--format=csv,noheader")
AMD = (("amd-smi", "static", "--asic", "--json"), ("rocm-smi", "--showproductname", "--json"))
_NAME_FIELDS = ("market_name", "card series")


def visible_devices() -> dict[str, str]:
    """Name the GPUs that this process may use, by what CUDA_VISIBLE_DEVICES calls each, in its order.

    All of the machine, by their indices, where the variable is not set. As CUDA does, what follows a name
    that fits no device is left out; so are slices of a device.
    """
    devices = _devices()
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return {str(index): name for index, (name, _) in enumerate(devices)}
    found: dict[str, str] = {}
    for given in map(str.strip, wanted.split(",")):
        fitting = (
            name
            for index, (name, uuid) in enumerate(devices)
            if given == str(index) or (given.startswith("GPU-") and uuid.startswith(given))
        )
        if not (name := next(fitting, "")):
            break
        found[given] = name
    return found


def _devices() -> list[tuple[str, str]]:
    """The names and UUIDs of the machine's GPUs, in the order of their indices; AMD's tools give no UUID."""
    lines = [line.rpartition(",") for line in _answer(NVIDIA).splitlines() if line.strip()]
    devices = [(name.strip(), uuid.strip()) for name, _, uuid in lines]
    for command in AMD if not devices else ():
        devices = devices or [(name, "") for name in amd_names(_answer(command))]
    return devices


def amd_names(answer: str) -> list[str]:
    """Read the names out of the JSON of `amd-smi` or `rocm-smi`; none where it is not that."""
    try:
        return list(_names_in(json.loads(answer)))
    except ValueError:
        return []


def _names_in(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _names_in(item)
    elif isinstance(value, dict):
        named = {str(name).lower(): item for name, item in value.items()}
        found = next((str(named[name]) for name in _NAME_FIELDS if named.get(name)), "")
        if found:
            yield found
        else:
            for item in value.values():
                yield from _names_in(item)


def _answer(command: tuple[str, ...]) -> str:
    if shutil.which(command[0]) is None:
        return ""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
