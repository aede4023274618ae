"""The rows of an entry's table of kernels, as HTML: which problem, and what came of it.

Written here and not in a template, which takes five times as long. `site/assets/entry.js` puts in their place
rows that say all: a thousand entries have a quarter of a million, so what stands in pages is little.
"""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from leaderboard.render import places
from leaderboard.render.parts import numbers
from leaderboard.render.parts.lines import KernelLine


def kernel_rows(lines: Iterable[KernelLine], *, root: str, board: str) -> Markup:
    """Give one row a kernel, each with a final newline; `root` leads from the page to the site's.

    All of it is figures, checked names and words of ours.
    """
    return Markup("".join(_row(line, root, board) for line in lines))  # noqa: S704


def _row(line: KernelLine, root: str, board: str) -> str:
    sample = f" #{line.key.sample}" if line.key.sample else ""
    address = places.kernel_page(board, line.entry, line.problem, line.key.sample)
    figures = (
        f"<td>{numbers.speedup(line.speedup)}</td><td>{numbers.interval(line.interval)}</td>"
        if line.is_correct and line.speedup
        else f'<td colspan="2">{line.words}</td>'
    )
    return (
        f'<tr><th scope="row"><a href="{root}{escape(address)}">'
        f"{line.key.level}/{line.key.problem_id}{sample}</a></th>{figures}</tr>\n"
    )
