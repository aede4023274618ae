"""The rows of an entry's table of kernels, as HTML.

Written here and not in a template, which takes five times as long: a thousand entries have a quarter of a
million rows. Messages, labels and titles are escaped; everything else is made of figures and checked names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from markupsafe import Markup, escape

from leaderboard.render.parts import numbers
from leaderboard.render.parts.lines import KernelLine


def kernel_rows(
    lines: Iterable[KernelLine], *, titles: Mapping[str, str], problems: str, query: str
) -> Markup:
    """Give one row a kernel, each with a final newline.

    `titles` names problems for people; `problems` leads from the page to the folder of problems, and `query`
    is the part of their address that says whose kernel is to be shown, as HTML.
    """
    return Markup("".join(_row(line, titles.get(line.problem, ""), problems, query) for line in lines))  # noqa: S704


def _row(line: KernelLine, title: str, problems: str, query: str) -> str:
    key, status = line.key, line.status.value
    level, problem, sample = key.level, key.problem_id, key.sample
    of_sample, number = (f"&amp;sample={sample}", f" #{sample}") if sample else ("", "")
    message = f"<small>{escape(line.message)}</small>" if line.message else ""
    labels = "".join(f'<span class="tag">{escape(label)}</span> ' for label in line.labels)
    return (
        f'<tr data-level="{level}" data-status="{status}" data-problem="{line.problem}">'
        f'<th scope="row" data-value="{level * 100000 + problem * 100 + sample}">'
        f'<a href="{problems}{line.problem}.html?{query}{of_sample}#code">{level}/{problem}{number}</a> '
        f'{escape(title)}</th><td><span class="status {status}">{line.words}</span>{message}</td>'
        f"{_figures(line)}<td>{labels}</td></tr>\n"
    )


def _figures(line: KernelLine) -> str:
    speedup, runtime, reference, share = line.speedup, line.runtime_ms, line.reference_ms, line.light_share
    if not speedup:
        return f'<td class="n">{numbers.NONE}</td><td></td><td></td><td></td><td></td>'
    up = " up" if line.is_faster else ""
    of_light = f' data-value="{share}"' if share else ""
    return (
        f'<td class="n{up}" data-value="{speedup}">{numbers.speedup(speedup)}</td>'
        f'<td class="n soft">{numbers.interval(line.interval)}</td>'
        f'<td class="n" data-value="{runtime}">{numbers.milliseconds(runtime)}</td>'
        f'<td class="n" data-value="{reference}">{numbers.milliseconds(reference)}</td>'
        f'<td class="n"{of_light}>{numbers.percent(share)}</td>'
    )
