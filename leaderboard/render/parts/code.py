"""Highlights the problems' own sources at build: Pygments classes, no inline style.

Kernels are coloured in the browser, by `site/assets/highlight.js`.
"""

from __future__ import annotations

from functools import cache, lru_cache

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from pygments.token import STANDARD_TYPES, _TokenType

_KINDS = {"k": "k", "s": "s", "c": "c", "m": "m"}


def highlighted(source: str) -> Markup:
    """Give Python source as HTML spans for a `<pre>`; the formatter escapes the text."""
    return Markup(highlight(source, _lexer(), _formatter()))  # noqa: S704


class _Short(HtmlFormatter):  # type: ignore[type-arg]
    """Five classes are enough to read by; `site/assets/highlight.js` uses the same."""

    def _get_css_class(self, ttype: _TokenType) -> str:
        name = STANDARD_TYPES.get(ttype)
        while name is None and ttype.parent is not None:
            ttype = ttype.parent
            name = STANDARD_TYPES.get(ttype)
        return _short_class(name or "")

    _get_css_classes = _get_css_class


@cache
def _lexer() -> PythonLexer:
    return PythonLexer(stripnl=False)


@cache
def _formatter() -> _Short:
    return _Short(nowrap=True)


@lru_cache
def _short_class(name: str) -> str:
    return "f" if name in ("nf", "nc") else _KINDS.get(name[:1], "")
