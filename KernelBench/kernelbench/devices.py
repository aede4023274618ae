"""Lists the GPUs of this machine by asking the maker's own tool, so that no context is created on any.

The AMD half reads `amd-smi` or `rocm-smi`; tests cover it with recorded answers. It has not run on hardware.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

NVIDIA = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
AMD = (("amd-smi", "static", "--asic", "--json"), ("rocm-smi", "--showproductname", "--json"))
_NAME_FIELDS = ("market_name", "card series")


def device_names() -> list[str]:
    """Name the GPUs, in the order of their indices; none where there is no tool or no device."""
    names = [line.strip() for line in _answer(NVIDIA).splitlines() if line.strip()]
    for command in AMD if not names else ():
        names = names or amd_names(_answer(command))
    return names


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
