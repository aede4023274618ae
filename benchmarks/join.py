"""Put the drafts that won into their entry: a folder of kernels, packed, that `kbl evaluate` can judge.

    python benchmarks/tiles.py --out build/tiles.jsonl
    python benchmarks/join.py --tiles build/tiles.jsonl --board H200
    kbl evaluate build/joined/founders-triton.json --work build/evaluations
    python benchmarks/join.py --tiles build/tiles.jsonl --board H200 \
        --judged build/evaluations/H200/founders-triton.json

A draft joins with its fastest tile that is right, where this is faster than the reference and than the
entry's own kernel, by what is recorded on the board; of two drafts for a problem the faster one does. With
`--most-worst 100` those join too that `tiles.py` found wrong: the evaluator asks what rounding explains. With
`--judged` those stay away that the evaluator did not find correct and as fast, so that the same `kbl
evaluate` has nothing left to judge and writes what `kbl record` takes. The entry's own files are left as
they are: what is in `build/joined/founders-triton` takes their place by hand.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "KernelBench"), str(ROOT)]

from kernel_evaluator.records.keys import KernelKey  # noqa: E402
from tiles import DRAFTS, lines_in  # noqa: E402

from leaderboard.files.store import read_result, recorded_path, write_atomically  # noqa: E402
from leaderboard.runs.pack import find_kernels, pack, write  # noqa: E402

ENTRIES = ROOT / "examples"
MOST_WORST = 0.9
"""Of the tolerance: a draft that is nearer to it is wrong on some other inputs."""
LINE = 110


def main() -> int:
    """Write the folder and the submission; exit 0."""
    options = _options()
    lines = [line for path in options.tiles for line in lines_in(path.read_text("utf-8"))]
    entry, drafts = ENTRIES / options.entry, options.folder or DRAFTS / options.entry
    kernels = find_kernels([entry])
    recorded = speedups(recorded_path(ROOT / "data", options.board, options.entry))
    to_beat = {key: max(recorded.get(key, 1.0), 1.0) for key in kernels}
    chosen = winners(lines, to_beat, options.most_worst)
    if options.judged:
        found = speedups(options.judged)
        chosen = {key: line for key, line in chosen.items() if found.get(key, 0.0) > to_beat.get(key, 1.0)}
    joined = {key: _with_tile(drafts / f"{line['kernel']}.py", line) for key, line in chosen.items()}
    kernels |= joined
    folder = options.into / options.entry
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("level_*.py"):
        path.unlink()
    metadata = (entry / "metadata.json").read_text("utf-8")
    write_atomically(folder / "metadata.json", metadata)
    for key, source in kernels.items():
        write_atomically(folder / f"{key}.py", source)
    submission = options.into / f"{options.entry}.json"
    write(submission, pack(kernels, json.loads(metadata), submission.name))
    print(f"joined: {', '.join(map(str, sorted(joined))) or 'none'}")
    print(f"written to {submission}, {len(kernels)} kernels")
    return 0


def speedups(path: Path) -> dict[KernelKey, float]:
    """What a result file says of its correct kernels."""
    return {row.key: row.speedup or 0.0 for row in read_result(path).rows if row.is_correct}


def winners(
    lines: Iterable[Mapping[str, Any]], to_beat: Mapping[KernelKey, float], most_worst: float
) -> dict[KernelKey, Mapping[str, Any]]:
    """The fastest right tile of each problem that beats the speedup to beat, or 1, by the key of sample 0."""
    best: dict[KernelKey, Mapping[str, Any]] = {}
    for line in lines:
        if "failed" in line or not line["worst"] <= most_worst:
            continue
        key = KernelKey.parse(line["kernel"])
        first = KernelKey(key.level, key.problem_id)
        if line["reference_ms"] / line["ms"] <= to_beat.get(first, 1.0):
            continue
        if first not in best or line["ms"] < best[first]["ms"]:
            best[first] = line
    return best


def _with_tile(path: Path, line: Mapping[str, Any]) -> str:
    source, count = re.subn(
        r"^TILE = \{.*?\}$",
        lambda _: _shown(line["tile"]),
        path.read_text("utf-8"),
        count=1,
        flags=re.MULTILINE | re.DOTALL,
    )
    if not count:
        raise ValueError(f"{path}: a draft names its tile in a statement `TILE = {{…}}` of its own")
    return source


def _shown(tile: Mapping[str, Any]) -> str:
    """The statement, laid out as the formatter does: in one line where it fits."""
    one = f"TILE = {_plain(tile)}"
    if len(one) <= LINE:
        return one
    return "TILE = {\n" + "".join(f'    "{name}": {_plain(value)},\n' for name, value in tile.items()) + "}"


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f'"{name}": {_plain(each)}' for name, each in value.items()) + "}"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entry", default="founders-triton")
    parser.add_argument(
        "--folder", type=Path, help="of the drafts; by default the entry's in kernels/drafts/"
    )
    parser.add_argument("--tiles", type=Path, nargs="+", required=True, help="what tiles.py wrote")
    parser.add_argument(
        "--board", required=True, help="whose recorded rows are to be beaten: H200, H200-bf16"
    )
    parser.add_argument(
        "--most-worst", type=float, default=MOST_WORST, help="of the tolerance: what counts as right here"
    )
    parser.add_argument("--into", type=Path, default=ROOT / "build" / "joined")
    parser.add_argument("--judged", type=Path, help="a work file of kbl evaluate")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
