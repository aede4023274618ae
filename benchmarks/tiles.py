"""Try kernels of our own before they are judged: what each gives here, and which of its tiles is fastest.

    python benchmarks/tiles.py --out build/tiles.jsonl --limit-s 300

A kernel's file in `kernels/drafts/` names the tile that it uses, `TILE = {...}`; `<file>.tiles.json` lists
what to try. All are compiled side by side first, and then timed one after another; the same command goes on
where it was stopped. A line says the tile, the milliseconds of a call (median), those of the reference, and
the worst difference from it in units of 1e-4, absolute and relative; or how the tile failed. `kbl evaluate`
says what counts.

    TRITON_INTERPRET=1 python benchmarks/tiles.py --device cpu --repeats 1

shows without a GPU whether they are right, at the sizes of `<file>.sizes.txt`.
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
AT_ONCE = 8
"""So many kernels compile at a time: each holds its problem's tensors on the device."""

WARM_UPS = 3
UNIT = 1e-4


def main() -> int:
    """Compile what is left, then time it; exit 1 where a tile failed or time ran out."""
    options = _options()
    if options.one:
        return _try(options.one, options.tiles, options.device, options.repeats)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done = _lines(options.out.read_text("utf-8")) if options.out.exists() else []
    known = {(line["kernel"], line["at"]) for line in done}
    left = {
        path: [at for at in range(len(_tiles(path))) if (path.stem, at) not in known]
        for path in sorted(options.folder.glob("level_*_sample_*.py"))
    }
    deadline = time.monotonic() + options.limit_s
    if options.device == "cuda":
        with ThreadPoolExecutor(AT_ONCE) as pool:
            half = deadline - options.limit_s / 2
            list(pool.map(lambda each: _said(*each, options.device, 0, half), left.items()))
    with options.out.open("a", encoding="utf-8") as file:
        for path, tiles in left.items():
            for line in _said(path, tiles, options.device, options.repeats, deadline):
                done.append(line)
                file.write(json.dumps(line) + "\n")
                print(_shown(line), flush=True)
            file.flush()
    missing = sum(map(len, left.values())) + len(known) - len(done)
    print(f"{missing} tiles are left")
    return 1 if missing or any("failed" in line for line in done) else 0


def _said(path: Path, tiles: list[int], device: str, repeats: int, deadline: float) -> list[dict[str, Any]]:
    """What processes of their own say of a file's tiles: one that dies costs the tile that it was at."""
    left, lines = list(tiles), []
    while left and time.monotonic() < deadline:
        command = [sys.executable, __file__, "--one", str(path), "--tiles", ",".join(map(str, left))]
        output, died = _run([*command, "--device", device, "--repeats", str(repeats)], deadline)
        new = _lines(output)
        lines += new
        left = left[len(new) :]
        if left and died:
            lines.append(_line(path, left.pop(0)) | {"failed": died})
    return lines


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith('{"kernel"')]


def _run(command: list[str], deadline: float) -> tuple[str, str]:
    """What a command printed, and what it died of: nothing where it was done, or where its time was up."""
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
            died = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            died = died if done.returncode else ""
        except subprocess.TimeoutExpired:
            died = ""
        output.seek(0)
        return output.read(), died


def _line(path: Path, at: int) -> dict[str, Any]:
    return {"kernel": path.stem, "at": at, "tile": _tiles(path)[at]}


def _try(path: Path, tiles: list[int], device: str, repeats: int) -> int:
    """Call a file's kernel with these tiles, so often to time it, and print a line of each."""
    import torch
    from kernel_evaluator.problems.problem_set import ProblemSet

    level, problem, _ = map(int, re.findall(r"\d+", path.stem))
    reference = ModuleType("reference")
    source, small = ProblemSet().load(level, problem).source, path.with_suffix(".sizes.txt")
    if device == "cpu" and small.exists():
        source += "\n" + small.read_text("utf-8")
    exec(compile(source, "reference", "exec"), vars(reference))
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
            off = [
                ((want - give).abs() / (UNIT + UNIT * want.abs())).max()
                for want, give in zip(wanted, given, strict=True)
            ]
            worst = float(torch.stack(off).max())  # NaN stays, where Python's max may lose it
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

    for _ in range(min(WARM_UPS, repeats)):
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
