"""Lines as a table. On a terminal that is too narrow, its columns stand in blocks, one below the other."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def as_columns(lines: Sequence[Mapping[str, Any]], style: str, *, kept: int = 1) -> str:
    """Lay lines out in a style of tabulate; the first `kept` columns begin each block.

    Only `simple` is for reading on a terminal. Where that is none, or for other styles, a table is one block.
    """
    width = shutil.get_terminal_size().columns if style == "simple" and sys.stdout.isatty() else None
    names = list(lines[0]) if lines else []
    head, rest = names[:kept], names[kept:]
    blocks = []
    while rest:
        most = len(rest)
        while width and most > 1 and _width(_table(lines, head + rest[:most], style)) > width:
            most -= 1
        blocks.append(_table(lines, head + rest[:most], style))
        rest = rest[most:]
    return "\n\n".join(blocks) or _table(lines, head, style)


def _table(lines: Sequence[Mapping[str, Any]], names: Sequence[str], style: str) -> str:
    from tabulate import tabulate

    cells = [[line.get(name) for name in names] for line in lines]
    return tabulate(cells, headers=names, tablefmt=style, floatfmt=".3f")


def _width(table: str) -> int:
    return max(map(len, table.splitlines()), default=0)
