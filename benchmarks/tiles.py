"""Try kernels of our own before they are judged: what each gives here, and which of its tiles is fastest.

    python benchmarks/tiles.py --out build/tiles.jsonl --limit-s 300

A kernel's file in `kernels/drafts/` names the tile that it uses, `TILE = {...}`; `<file>.tiles.json` lists
what to try. All are compiled side by side first, and then timed one after another. A line says the tile, the
milliseconds of a call (median), those of the reference, and the worst difference from it in units of 1e-4,
absolute and relative; or how the tile failed. `kbl evaluate` says what counts.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "KernelBench"), str(ROOT)]

DRAFTS = ROOT / "benchmarks" / "kernels" / "drafts"
AT_ONCE = 6
"""So many kernels compile at a time: each holds its problem's tensors on the device."""

WARM_UPS = 3
UNIT = 1e-4


def main() -> int:
    """Compile all, then time all; exit 1 where a tile failed or time ran out."""
    options = _options()
    if options.one:
        return _try(options.one, options.tiles, options.device, options.repeats)
    deadline = time.monotonic() + options.limit_s
    said = partial(_said, device=options.device, deadline=deadline)
    paths = sorted(options.folder.glob("level_*_sample_*.py"))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        compiled = dict(zip(paths, pool.map(lambda path: said(path, repeats=0), paths), strict=True))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    failed = 0
    with options.out.open("a", encoding="utf-8") as file:
        for path in paths:
            sound = [line["at"] for line in compiled[path] if "failed" not in line]
            lines = [line for line in compiled[path] if "failed" in line] + said(
                path, sound, repeats=options.repeats
            )
            for line in lines:
                file.write(json.dumps(line) + "\n")
                print(_shown(line), flush=True)
            file.flush()
            failed += sum("failed" in line for line in lines)
    return 1 if failed else 0


def _said(
    path: Path, tiles: list[int] | None = None, *, device: str, deadline: float, repeats: int
) -> list[dict[str, Any]]:
    """What processes of their own say of a file's tiles: one that dies costs the tile that it was at."""
    left = list(range(len(_tiles(path)))) if tiles is None else list(tiles)
    lines: list[dict[str, Any]] = []
    while left:
        command = [sys.executable, __file__, "--one", str(path), "--tiles", ",".join(map(str, left))]
        command += ["--device", device, "--repeats", str(repeats)]
        output, ended = _run(command, deadline)
        new = [json.loads(line) for line in output.splitlines() if line.startswith('{"kernel"')]
        lines += new
        left = left[len(new) :]
        if left:
            lines.append(_line(path, left.pop(0)) | {"failed": ended})
    return lines


def _run(command: list[str], deadline: float) -> tuple[str, str]:
    """What a command printed, and how it ended."""
    with tempfile.TemporaryFile("w+") as output:
        try:
            done = subprocess.run(
                command,
                stdout=output,
                stderr=subprocess.PIPE,
                text=True,
                timeout=max(deadline - time.monotonic(), 0.1),
                check=False,
            )
            ended = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        except subprocess.TimeoutExpired:
            ended = "no time was left"
        output.seek(0)
        return output.read(), ended


def _line(path: Path, at: int) -> dict[str, Any]:
    return {"kernel": path.stem, "at": at, "tile": _tiles(path)[at]}


def _try(path: Path, tiles: list[int], device: str, repeats: int) -> int:
    """Call a file's kernel with these tiles, so often to time it, and print a line of each."""
    import torch
    from kernel_evaluator.problems.problem_set import ProblemSet

    level, problem, _ = map(int, re.findall(r"\d+", path.stem))
    reference = ModuleType("reference")
    exec(compile(ProblemSet().load(level, problem).source, "reference", "exec"), vars(reference))
    sys.path.insert(0, str(path.parent))
    draft = __import__(path.stem)  # from its file, where Triton reads the kernels
    with torch.no_grad(), torch.device(device):
        models = []
        for made in (reference.Model, draft.ModelNew):
            torch.manual_seed(0)
            models.append(made(*reference.get_init_inputs()).to(device))
        inputs = [each.to(device) if torch.is_tensor(each) else each for each in reference.get_inputs()]
        wanted = _outputs(models[0](*inputs))
        calls = [partial(model, *inputs) for model in models]
        reference_ms = _ms(calls[0], device, repeats) if repeats else None
        for at in tiles:
            draft.TILE = _tiles(path)[at] or draft.TILE
            given = _outputs(calls[1]())
            pairs = zip(wanted, given, strict=True)
            worst = max(
                float(((want - give).abs() / (UNIT + UNIT * want.abs())).max()) for want, give in pairs
            )
            times = {"reference_ms": reference_ms, "ms": _ms(calls[1], device, repeats)} if repeats else {}
            print(json.dumps(_line(path, at) | {"worst": worst} | times), flush=True)
    return 0


def _outputs(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple | list) else [found]


def _ms(call: Callable[[], Any], device: str, repeats: int) -> float:
    """The median of some calls in milliseconds, each waited for."""
    import torch

    def once() -> float:
        started = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        return 1000 * (time.perf_counter() - started)

    for _ in range(WARM_UPS):
        once()
    return statistics.median(once() for _ in range(repeats))


def _tiles(path: Path) -> list[dict[str, Any] | None]:
    """The tiles to try; None stands for the file's own, where none are listed."""
    listed = path.with_suffix(".tiles.json")
    return json.loads(listed.read_text("utf-8")) if listed.exists() else [None]


def _shown(line: dict[str, Any]) -> str:
    if "failed" in line:
        return f"{line['kernel']} {line['tile']}: {line['failed']}"
    ratio, worst = line["reference_ms"] / line["ms"], line["worst"]
    return (
        f"{line['kernel']} {ratio:.2f}x of {line['reference_ms']:.2f} ms, worst {worst:.2g}, {line['tile']}"
    )


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=DRAFTS)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "tiles.jsonl")
    parser.add_argument("--limit-s", type=float, default=1e6)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--repeats", type=int, default=20, help="timed calls of each")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--tiles", type=_numbers, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
