"""Where every page and file of the site lies. Knows nothing of what stands in them."""

from __future__ import annotations

import re
from functools import cache

from kernel_evaluator.records.keys import KernelKey

API = "api/v1"
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


@cache
def slug(name: str) -> str:
    """Give a board's name as it stands in addresses."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "board"


def checked(entry: str) -> str:
    """Pass an entry's id through; raise ValueError where it could leave the site's folder."""
    if not _SAFE.fullmatch(entry):
        raise ValueError(f"entry must be letters, digits, '.', '_' and '-', got {entry!r}")
    return entry


def up(page: str) -> str:
    """Give the relative way from a page to the site's root: `../` a folder; empty at the root."""
    return "../" * page.count("/")


def board_page(board: str) -> str:
    """The page of one board."""
    return f"boards/{slug(board)}.html"


def all_page(board: str) -> str:
    """The page that lists every entry of a large board without JavaScript."""
    return f"boards/{slug(board)}-all.html"


def entry_page(board: str, entry: str) -> str:
    """The page of one entry on one board."""
    return f"entries/{slug(board)}/{checked(entry)}.html"


def problem_page(problem: str) -> str:
    """The page of one problem, `1_23`."""
    return f"problems/{problem}.html"


def kernel_page(board: str, entry: str, problem: str, sample: int = 0) -> str:
    """An entry's kernel for a problem on a board, in the viewer of the problem's page."""
    chosen = f"&sample={sample}" if sample else ""
    return f"{problem_page(problem)}?board={slug(board)}&a={entry}{chosen}#code"


def problems_page(board: str, first: str) -> str:
    """The list of problems with a board's figures; those of the first board have the folder's address."""
    return "problems/index.html" if board == first else f"problems/{slug(board)}.html"


def matrix_page(board: str) -> str:
    """The page with problems as rows and entries as columns."""
    return f"matrix/{slug(board)}.html"


def records_page(board: str) -> str:
    """The page of records over time."""
    return f"records/{slug(board)}.html"


def board_api(board: str) -> str:
    """A board's standings as JSON."""
    return f"{API}/boards/{slug(board)}.json"


def standings_csv(board: str) -> str:
    """A board's standings as CSV."""
    return f"{API}/boards/{slug(board)}.csv"


def rows_csv(board: str) -> str:
    """Every kernel of a board as CSV, compressed."""
    return f"{API}/boards/{slug(board)}.rows.csv.gz"


def records_api(board: str) -> str:
    """A board's records over time as JSON."""
    return f"{API}/boards/{slug(board)}.records.json"


def table_file(board: str) -> str:
    """The compact table that a board's script sorts and filters."""
    return f"boards/{slug(board)}.table.json"


def references_api(board: str) -> str:
    """How much faster than eager PyTorch a board's other references are, by problem, as JSON."""
    return f"{API}/boards/{slug(board)}.references.json"


def revisions_api(board: str, entry: str) -> str:
    """Every recorded verdict on each kernel of an entry, compressed; where there is more than one."""
    return f"{API}/revisions/{slug(board)}/{checked(entry)}.json.gz"


def entry_api(board: str, entry: str) -> str:
    """One entry's scores and rows, with the logs and the evidence of what failed, as compressed JSON."""
    return f"{API}/entries/{slug(board)}/{checked(entry)}.json.gz"


def problem_api(board: str, problem: str) -> str:
    """Every kernel of one problem on one board as JSON."""
    return f"{API}/problems/{slug(board)}/{problem}.json"


def raw_result(board: str, entry: str) -> str:
    """The result file as it was recorded, compressed."""
    return f"{API}/results/{slug(board)}/{checked(entry)}.json.gz"


def kernels_folder(problem: str) -> str:
    """The folder with the code of a problem's fastest kernels."""
    return f"kernels/{problem}"


def kernels_file(problem: str, shard: int) -> str:
    """One of the compressed files that hold a problem's kernels by the digest of their source."""
    return f"{kernels_folder(problem)}/{shard}.json.gz"


def raw_kernel(problem: str, digest: str) -> str:
    """A kernel's source as it is; the address names the content."""
    return f"{kernels_folder(problem)}/{digest[:16]}.py"


def problems_api(board: str) -> str:
    """What the problems are, and their rooflines on a board, as JSON."""
    return f"{API}/boards/{slug(board)}.problems.json"


def badge(board: str, entry: str) -> str:
    """The entry's badge."""
    return f"badges/{slug(board)}/{checked(entry)}.svg"


def board_picture(board: str) -> str:
    """The board's picture for link previews."""
    return f"pictures/{slug(board)}.png"


def problem_picture(problem: str) -> str:
    """The problem's picture for link previews."""
    return f"pictures/problems/{problem}.png"


def versus_page(board: str, a: str, b: str) -> str:
    """The comparison of two entries that others can be shown; no id holds the sign between them."""
    return f"compare/{slug(board)}/{checked(a)}~{checked(b)}.html"


def versus_picture(board: str, a: str, b: str) -> str:
    """Its picture for link previews."""
    return f"pictures/compare/{slug(board)}/{checked(a)}~{checked(b)}.png"


def embed_page(board: str) -> str:
    """The small table that other sites may show."""
    return f"embed/{slug(board)}.html"


def picture(board: str, entry: str) -> str:
    """The entry's picture for link previews."""
    return f"pictures/{slug(board)}/{checked(entry)}.png"


def problem_id(key: KernelKey) -> str:
    """Name a kernel's problem: `1_23`."""
    return f"{key.level}_{key.problem_id}"
