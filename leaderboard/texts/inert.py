"""Untrusted text made harmless for Markdown, logs and spreadsheets. Owns escaping; decides no content.

In Markdown everything untrusted goes into a code span or a fence: there GitHub reads no mention, no
reference, no link, no HTML. In a log every line gets a prefix, so that none can be a runner's command.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

ELLIPSIS = "…"
LOG_PREFIX = "| "
LOG_LIMIT = 4000

_BACKTICKS = re.compile(r"`+")
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_KEPT_CONTROLS = frozenset("\n\t")


def shorten(text: str, limit: int) -> str:
    """Cut the text to `limit` characters, the last of them an ellipsis where something was cut."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + ELLIPSIS


def visible(text: str) -> str:
    """Drop what no reader sees: terminal sequences, controls, surrogates, direction and zero-width marks.

    And what Unicode will never make a character: no XML may hold it, so that one name would end the feed.
    """
    if text.isprintable():
        return text
    plain = _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return "".join(c for c in plain if c in _KEPT_CONTROLS or not _is_unseen(c))


def encodable(text: str) -> str:
    """Give text that UTF-8 can hold: `?` stands for each half of a pair that is there alone.

    Such text comes from kernels' own errors, and neither a file nor an answer of the server takes it.
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def visible_json(value: Any) -> Any:
    """Give a value of JSON with every text in it made visible."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(str(name)): visible_json(item) for name, item in value.items()}
    return [visible_json(item) for item in value] if isinstance(value, list | tuple) else value


def one_line(text: str, limit: int = 100) -> str:
    """Give visible text on one line; of very long text only the beginning is looked at."""
    return shorten(" ".join(visible(text[: 4 * limit + 400]).split()), limit)


def code_span(text: str, limit: int = 100) -> str:
    """Give a Markdown code span that holds the text, in a table as well; an empty text gives `(empty)`.

    A bar would end a table's cell even within code, so it is drawn as a broken bar.
    """
    line = one_line(text, limit).replace("|", "¦")
    if not line:
        return "`(empty)`"
    ticks = "`" * (_longest_run(line) + 1)
    padding = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{padding}{line}{padding}{ticks}"


def fence(text: str, limit: int = 2000) -> str:
    """Give a code block that holds the end of the text, fenced longer than any run of backticks in it."""
    end = visible(text[-4 * limit :])
    body = end if len(end) <= limit else ELLIPSIS + end[-(limit - 1) :]
    ticks = "`" * max(3, _longest_run(body) + 1)
    return f"{ticks}text\n{body.strip(chr(10))}\n{ticks}"


def cell(text: str) -> str:
    """Give visible text for a table of comma-separated values, where a spreadsheet would read a formula.

    What is not seen goes first: else a sign before `=` hides it here, and is dropped on the way to a file.
    """
    shown = visible(text)
    return f"'{shown}" if shown[:1] in ("=", "+", "-", "@", "\t", "\n") else shown


def log_text(text: str) -> str:
    """Give text for a log: lines prefixed, `##[` taken apart, so that a runner reads no command in it."""
    body = shorten(visible(text[: 4 * LOG_LIMIT]), LOG_LIMIT).replace("##[", "## [")
    return "\n".join(LOG_PREFIX + line for line in _lines(body))


def annotation(
    level: str, message: str, *, file: str = "", line: int = 0, col: int = 0, title: str = ""
) -> str:
    """Give the workflow command that shows the message beside a file; `level` is error, warning or notice."""
    place = {"file": file, "line": line, "col": col, "title": title}
    properties = ",".join(f"{name}={_property(str(value))}" for name, value in place.items() if value)
    return f"::{level} {properties}::{_data(one_line(message, 1000))}"


def _is_unseen(sign: str) -> bool:
    code = ord(sign)
    is_none = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    return is_none or unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Co")


def _lines(text: str) -> list[str]:
    return text.splitlines() or [""]


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
