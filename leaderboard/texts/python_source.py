"""Python that strangers wrote, read without running it, and without what reading it could cost."""

from __future__ import annotations

import ast
import re

MOST_PARTS = 250
"""Parts of a module's name in an import; what is nested as deeply elsewhere is not judged either."""

_NAME = r"(?:\w|[^\x00-\x7f])++"  # marks that letters carry are of a name, and no letters
_DOTTED = re.compile(rf"(?:\b(?:from|import)|,)[\s\\.]*+(?:{_NAME}[\s\\]*+\.[\s\\]*+)++")


def parsed(source: str, name: str = "<unknown>") -> ast.Module:
    """Parse it and raise as ast.parse does; what would take any memory raises MemoryError at once."""
    if takes_any_memory(source):
        raise MemoryError(f"an import names a module of more than {MOST_PARTS} parts")
    return ast.parse(source, name)


def takes_any_memory(source: str) -> bool:
    """Whether Python's parser would need the square of the source's size: 120 KB of one import take 4 GB."""
    return any(found[0].count(".") >= MOST_PARTS for found in _DOTTED.finditer(source))
