"""Lists told in short: how many there are, or the first of them and how many more."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """Write how many of something there are: `1 kernel`, `2 kernels`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def first_lines(lines: Sequence[str], most: int) -> list[str]:
    """Give the first lines, and in one more how many are left out."""
    left = len(lines) - most
    return [*lines[:most], *([f"and {left} more"] if left > 0 else [])]


def first_words(words: Sequence[str], most: int) -> str:
    """Give the first words in a row, and how many are left out."""
    left = len(words) - most
    return ", ".join(words[:most]) + (f" and {left} more" if left > 0 else "")
