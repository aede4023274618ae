"""The code of kernels as files that a page fetches when it shows it: by problem and by content, compressed.

What two entries share lies there once. A file holds four to eight kernels of one problem, in the mean, which
are much alike.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping

from leaderboard.files.submission import kernel_sha256
from leaderboard.render import places
from leaderboard.render.output import SiteFolder, compressed

A_FILE = 8
"""Kernels that share a file at most, in the mean: tens of kilobytes to fetch."""


def shards_for(kernels: int) -> int:
    """Say over how many files so many kernels are spread: a power of two."""
    return 1 << (max(kernels - 1, 0) // A_FILE).bit_length()


def shard_of(digest: str, shards: int) -> int:
    """Give the number of the file that holds a source; `site/assets/data.js` does the same."""
    return int(digest[:2], 16) * shards // 256


def read_code(folder: SiteFolder, problem: str) -> dict[str, str]:
    """Read what earlier builds kept of a problem: digest to source, without what is torn or mistaken."""
    found: dict[str, str] = {}
    for path in sorted((folder.root / places.kernels_folder(problem)).glob("*.json.gz")):
        try:
            held = json.loads(gzip.decompress(path.read_bytes()))
        except (OSError, EOFError, zlib.error, ValueError):
            continue
        if isinstance(held, dict):
            texts = ((digest, source) for digest, source in held.items() if isinstance(source, str))
            found.update((digest, source) for digest, source in texts if kernel_sha256(source) == digest)
    return found


def write_code(
    folder: SiteFolder, problem: str, sources: Mapping[str, str], *, shards: int, plain: Iterable[str]
) -> None:
    """Write a problem's sources by digest over so many files, and those named in `plain` as they are."""
    files: dict[int, dict[str, str]] = {}
    for digest in sorted(sources):
        files.setdefault(shard_of(digest, shards), {})[digest] = sources[digest]
    for number, held in files.items():
        folder.write(places.kernels_file(problem, number), compressed(json.dumps(held)))
    for digest in plain:
        if digest in sources:
            folder.write(places.raw_kernel(problem, digest), sources[digest])
