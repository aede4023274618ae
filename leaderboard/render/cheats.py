"""What the red team's records say: rates by device, every cheat with its fate, and what stays open."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaderboard.files.store import StoreError

_OPEN = "## What stays open"
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_BULLET = re.compile(r"- \*\*(.+?)\.?\*\* (.+)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Cheat:
    """One cheat on one device. `gain` is its speedup over its honest twin's, by near ends of intervals.

    `is_ranked`: whether a board ranks the problem.
    """

    id: str
    what: str
    layer: str
    status: str
    failure: str
    has_won: bool
    is_ranked: bool
    twin: str
    twin_status: str
    gain: float | None
    note: str

    @property
    def fate(self) -> str:
        """What became of it, in a word or two."""
        if self.has_won:
            return "won"
        if self.status == "correct":
            return "accepted, no gain" if self.is_ranked else "accepted, not ranked"
        return "quarantined" if self.status == "quarantined" else "rejected"


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What came of the corpus on one device. Bounds are 95 %, None where some were seen."""

    device: str
    finished_at: str
    evaluator_sha256: str
    cheats: int
    won: int
    rejected: int
    quarantined: int
    no_gain: int
    honest: int
    turned_away: int
    cheats_bound: float | None
    honest_bound: float | None
    cases: tuple[Cheat, ...]


def read_cheats(records: Path, corpus: Path) -> tuple[Rates, ...]:
    """Read `redteam-<device>.json` of a folder, with the corpus's own words: the one with most cases last.

    A broken one is a StoreError.
    """
    known = {path.stem.split("_", 1)[0]: path for path in sorted(corpus.glob("*.py"))}
    rates = [_rates(path, known) for path in sorted(records.glob("redteam-*.json"))]
    return tuple(sorted(rates, key=lambda found: len(found.cases)))


def read_open(page: Path) -> tuple[tuple[str, str], ...]:
    """Read what stays open from the page on trust: (in short, in full)."""
    if not page.is_file():
        return ()
    text = page.read_text("utf-8").partition(_OPEN)[2].partition("\n## ")[0]
    text = _LINK.sub(r"\1", text)
    bullets = (" ".join(part.split()) for part in re.split(r"\n(?=- )", text))
    found = (_BULLET.fullmatch(bullet) for bullet in bullets)
    return tuple((match[1], match[2]) for match in found if match)


def _rates(path: Path, corpus: Mapping[str, Path]) -> Rates:
    try:
        data = json.loads(path.read_bytes())  # errors of a row may be infinite
        cheats, honest = data["exploits"], data["honest"]
        return Rates(
            device=data["environment"]["gpu"],
            finished_at=data["finished_at"],
            evaluator_sha256=data["evaluator_sha256"],
            cheats=cheats["total"],
            won=len(cheats["won"]),
            rejected=cheats["rejected"],
            quarantined=cheats["quarantined"],
            no_gain=cheats["accepted"] - len(cheats["won"]),
            honest=honest["total"],
            turned_away=len(honest["turned_away"]),
            cheats_bound=cheats["bound95"],
            honest_bound=honest["bound95"],
            cases=tuple(_cheats(data["cases"], frozenset(cheats["won"]), corpus)),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: not a record of the red team: {error!r}") from error


def _cheats(
    cases: Sequence[Mapping[str, Any]], won: Iterable[str], corpus: Mapping[str, Path]
) -> Iterator[Cheat]:
    plain = {case["id"]: case for case in cases if not case.get("off")}
    for case in sorted(plain.values(), key=lambda case: _in_order(case["id"])):
        if case["kind"] != "exploit":
            continue
        twin = plain.get(case.get("twin", ""))
        yield Cheat(
            id=case["id"],
            what=_said(corpus.get(case["id"])),
            layer=case.get("layer", ""),
            status=case["row"]["status"],
            failure=case["row"].get("failure", {}).get("name", ""),
            has_won=case["id"] in won,
            is_ranked=not case.get("uncertified"),
            twin=case.get("twin", ""),
            twin_status=twin["row"]["status"] if twin else "",
            gain=case.get("gain"),
            note=case.get("note", ""),
        )


def _in_order(case: str) -> list[str | int]:
    """Give what sorts e9 before e10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", case)]


def _said(path: Path | None) -> str:
    """Give the first paragraph of a case's own docstring; empty where it has none or is no Python."""
    if path is None:
        return ""
    try:
        words = ast.get_docstring(ast.parse(path.read_text("utf-8", "replace"))) or ""
    except (SyntaxError, ValueError):
        return ""
    return " ".join(words.split("\n\n")[0].split())
