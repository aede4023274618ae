"""The sources of submitted kernels as files that a page fetches when it shows them.

A file holds a few kernels, compressed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping

from isal import igzip  # on kernel sources six times as fast as zlib, for files a tenth larger
from kernel_evaluator.records.keys import KernelKey

from leaderboard.render import places
from leaderboard.render.output import SiteFolder


def write_kernels(folder: SiteFolder, entry: str, kernels: Mapping[str, str]) -> list[str]:
    """Write an entry's kernels in files of neighbouring problems; return the files' names."""
    shards: dict[str, dict[str, str]] = defaultdict(dict)
    for name, source in kernels.items():
        shards[places.kernels_file(entry, KernelKey.parse(name))][name] = source
    for name, sources in shards.items():
        folder.write(name, compressed(json.dumps(sources)))
    return sorted(shards)


def compressed(text: str | bytes) -> bytes:
    """Compress to bytes that depend on the content alone."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return igzip.compress(data, 1, mtime=0)
