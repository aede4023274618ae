"""Standings as text: a table for a terminal, Markdown, CSV and JSON. Computes no score."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from leaderboard.stages.standings import THRESHOLDS, Against, Board, Reference, Scores, Standing
from leaderboard.texts.columns import as_columns
from leaderboard.texts.inert import cell

UNSURE = "~"
"""Behind a fast@p: some kernel's interval holds the threshold, so the share may be off by it."""

Line = dict[str, Any]


def as_table(boards: Sequence[Board], style: str = "simple") -> str:
    """Lay each board out for reading, in a style of tabulate (`simple`, `github`)."""
    return "\n\n".join(
        f"{'## ' if style == 'github' else ''}{board.name}: {_said_of(board)}\n\n"
        + as_columns([_shown(standing) for standing in board.standings], style, kept=2)
        for board in boards
    )


def as_csv(boards: Sequence[Board]) -> str:
    """Give every figure at full precision, one line an entry and level; level `all` is the ranking."""
    import pandas as pd

    lines = [line for board in boards for standing in board.standings for line in _flat(board, standing)]
    return str(pd.DataFrame(lines).to_csv(index=False))


def as_json(boards: Sequence[Board]) -> str:
    """Give boards with their standings, at full precision, without the rows."""
    return json.dumps({"boards": [_board(board) for board in boards]}, indent=2, sort_keys=True)


def _said_of(board: Board) -> str:
    ranked = sum(standing.rank is not None for standing in board.standings)
    unranked = len(board.standings) - ranked
    return f"{ranked} ranked, {unranked} not; entries that cannot be told apart share a rank"


def _shown(standing: Standing) -> Line:
    overall = standing.overall
    low, high = standing.deployed_ci95
    geomean = f"{overall.geomean_speedup:.3f}" if overall.geomean_speedup is not None else "-"
    line = {
        "rank": standing.rank if standing.rank is not None else "-",
        "entry": standing.entry,
        "deployed": f"{overall.deployed_speedup:.3f}x ({low:.3f}-{high:.3f})",
    }
    if best := standing.against.get("best"):  # a board has it of all its entries, or of none
        line["vs best of PyTorch"] = f"{best.deployed_speedup:.3f}x"
    line["geomean (n)"] = f"{geomean} ({overall.geomean_n})"
    for p in THRESHOLDS:
        line[f"fast@{p:g}"] = f"{overall.fast[p]:.1%}" + (UNSURE if overall.straddling[p] else "")
    line["correct"] = f"{overall.correct_rate:.1%}"
    line["light"] = "-" if overall.light_share is None else f"{overall.light_share:.1%}"
    for level, scores in standing.levels.items():
        if level < 4:
            line[f"L{level}"] = f"{scores.deployed_speedup:.3f}x {scores.correct}/{scores.problems}"
    return {**line, "unranked": standing.unranked_because}


def _flat(board: Board, standing: Standing) -> list[Line]:
    head = {
        "board": board.name,
        "entry": standing.entry,
        "display_name": cell(standing.display_name),
        "organization": cell(standing.organization),
        "rank": standing.rank if standing.rank is not None else "",
        "unranked_because": standing.unranked_because,
    }
    low, high = standing.deployed_ci95
    bounds = {"deployed_ci95_low": low, "deployed_ci95_high": high}
    parts: list[tuple[str, Scores, Line]] = [
        ("all", standing.overall, {**_against(standing.against), **bounds}),
        *(
            (str(level), scores, _against(_of_level(standing, level)))
            for level, scores in standing.levels.items()
        ),
    ]
    return [{**head, "level": level, **_figures(scores), **extra} for level, scores, extra in parts]


def _of_level(standing: Standing, level: int) -> dict[Reference, Against]:
    return {name: found[level] for name, found in standing.levels_against.items() if level in found}


def _against(scores: Mapping[Reference, Against]) -> Line:
    return {f"deployed_speedup_vs_{name}": item.deployed_speedup for name, item in scores.items()}


def _figures(scores: Scores) -> Line:
    return {
        "problems": scores.problems,
        "ranked_problems": scores.ranked_problems,
        "submitted": scores.submitted,
        "compiled": scores.compiled,
        "correct": scores.correct,
        "deployed_speedup": scores.deployed_speedup,
        "geomean_speedup": scores.geomean_speedup,
        "geomean_n": scores.geomean_n,
        "correct_rate": scores.correct_rate,
        "compile_rate": scores.compile_rate,
        "light_share": scores.light_share,
        "general": scores.general,
        "tried_elsewhere": scores.tried_elsewhere,
        **{f"fast@{p:g}": share for p, share in scores.fast.items()},
        **{f"straddling@{p:g}": count for p, count in scores.straddling.items()},
        **{f"pass@{k}": share for k, share in scores.pass_at_k.items()},
        **{f"speedup_p{q}": value for q, value in scores.speedup_percentiles.items()},
    }


def _board(board: Board) -> Line:
    return {
        "board": board.name,
        "gpu": board.gpu,
        "precision": board.precision,
        "sizes": board.sizes,
        "unranked_problems": dict(board.unranked_problems),
        "standings": [_standing(standing) for standing in board.standings],
    }


def _standing(standing: Standing) -> Line:
    return {
        "entry": standing.entry,
        "display_name": standing.display_name,
        "organization": standing.organization,
        "kind": standing.kind,
        "rank": standing.rank,
        "unranked_because": standing.unranked_because,
        "deployed_ci95": list(standing.deployed_ci95),
        "overall": {**_figures(standing.overall), **_against(standing.against)},
        "levels": {
            str(level): {**_figures(scores), **_against(_of_level(standing, level))}
            for level, scores in standing.levels.items()
        },
        "failures": dict(standing.failures),
        "metadata": dict(standing.metadata),
        "finished_at": standing.result.finished_at,
        "revision": standing.result.revision,
    }
