"""Lines as a table. On a terminal that is too narrow, its columns stand in blocks, one below the other."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

_GAP = 2
"""Spaces between the columns of `simple`."""


def as_columns(lines: Sequence[Mapping[str, Any]], style: str, *, kept: int = 1) -> str:
    """Lay lines out in a style of tabulate; the first `kept` columns begin each block.

    Only `simple` is for reading on a terminal. Where that is none, or for other styles, a table is one block.
    """
    names = list(lines[0]) if lines else []
    blocks = [names]
    if style == "simple" and sys.stdout.isatty():
        room = shutil.get_terminal_size().columns
        blocks = _fitting(names, {name: _width(_table(lines, [name], style)) for name in names}, room, kept)
    return "\n\n".join(_table(lines, block, style) for block in blocks)


def _fitting(names: Sequence[str], widths: Mapping[str, int], room: int, kept: int) -> list[list[str]]:
    """Deal the columns into blocks that fit, each with at least one that is not kept."""
    head = list(names[:kept])
    blocks = [head]
    for name in names[kept:]:
        block = [*blocks[-1], name]
        if len(block) > kept + 1 and sum(widths[each] + _GAP for each in block) - _GAP > room:
            blocks.append([*head, name])
        else:
            blocks[-1] = block
    return blocks


def _table(lines: Sequence[Mapping[str, Any]], names: Sequence[str], style: str) -> str:
    from tabulate import tabulate

    cells = [[line.get(name) for name in names] for line in lines]
    # Text stays as it is: an entry may be called 4.5 or 1e5, which tabulate would take for numbers.
    texts = [at for at, name in enumerate(names) if any(isinstance(line.get(name), str) for line in lines)]
    return tabulate(cells, headers=names, tablefmt=style, floatfmt=".3f", disable_numparse=texts)


def _width(table: str) -> int:
    return max(map(len, table.splitlines()), default=0)
