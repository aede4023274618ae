"""What options that take numbers have in common: none is nan or infinite."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import typer

T = TypeVar("T", float, float | None, Sequence[float] | None)


def finite(value: T) -> T:
    """Give an option's number, or its numbers, back; the callback of options that take floats.

    An option's `min` and `max` are not enough: an older Typer lets nan through, with which every
    comparison is false.
    """
    numbers = [value] if isinstance(value, float) else value or ()
    for number in numbers:
        if not math.isfinite(number):
            raise typer.BadParameter(f"{number} is no finite number; give one such as 1.5")
    return value
