"""Documents as no program writes them: bytes that are wrong, and JSON with values that nobody expects."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

PIECES = [
    b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\\ud800", b"\0", b"\xff", b"\xef\xbb\xbf", b"\xc2\x85",
    b"\xe2\x80\xa8", b"\n", b"1e999", b"-0", b"NaN", b"/*", b"'", b"\\u0000", b"\xf0\x9f\x92\xa9", b"\x1b[2J",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, -1, 0.1, 10**400, -(10**40), 1e308, 1e-320, float("nan"), float("inf"), "", " ",
    "\x85", "\ufeff", "\u2028", "\u202e", "\0", "\x1b]0;x\x07", "\ud800", "x" * 5000, "1" * 400,
    "level_1_problem_1_sample_0", "https://a.example/\ufeff", "javascript:1", [], [[]], [None] * 50,
    {}, {"": {}}, {"__proto__": 1}, {"a": [{}] * 9},
]  # fmt: skip


def of_bytes(chance: random.Random, raw: bytes) -> bytes:
    """Change a document's bytes in a few places."""
    changed = bytearray(raw)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        piece = chance.choice(PIECES) if chance.random() < 0.7 else chance.randbytes(chance.randint(0, 4))
        changed[at : at + chance.choice([0, 0, 1, 2, 6, 200])] = piece
    return bytes(changed)


def of_values(chance: random.Random, document: Any) -> Any:
    """Change a document's values, keys and items in a few places."""
    changed = copy.deepcopy(document)
    for _ in range(chance.randint(1, 3)):
        holder, at = _place(chance, changed)
        if holder is None:
            return copy.deepcopy(chance.choice(VALUES))
        kind = chance.random()
        if kind < 0.6:
            holder[at] = copy.deepcopy(chance.choice(VALUES))
        elif kind < 0.8:
            del holder[at]
        elif isinstance(holder, dict):
            holder[str(chance.choice(VALUES))[:99]] = copy.deepcopy(holder[at])
        else:
            holder.append(copy.deepcopy(holder[at]))
    return changed


def of(chance: random.Random, document: Any) -> bytes:
    """A changed document, as bytes."""
    if chance.random() < 0.5:
        return of_bytes(chance, json.dumps(document, indent=chance.choice([None, 1])).encode())
    text = json.dumps(of_values(chance, document), ensure_ascii=chance.random() < 0.5)
    return text.encode("utf-8", "surrogatepass")


def _place(chance: random.Random, document: Any) -> tuple[Any, Any]:
    """A random value within: what holds it, and its key or number."""
    holder, at, inside = None, None, document
    while isinstance(inside, dict | list) and inside and (holder is None or chance.random() < 0.8):
        holder, at = inside, chance.choice([*inside] if isinstance(inside, dict) else range(len(inside)))
        inside = holder[at]
    return holder, at
