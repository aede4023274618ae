"""Try kernels of our own before they are judged: what each gives here, and which of its tiles is fastest.

    python benchmarks/tiles.py --entry founders-triton --out build/tiles.jsonl --limit-s 300

A kernel's file in `kernels/drafts/<entry>/` names the tile that it uses, `TILE = {...}`; `<file>.tiles.json`
lists what to try. All are compiled side by side first, and then timed one after another, while the next ones
load; the same command goes on where it was stopped. A line says the tile, the milliseconds of a call
(median), those of the reference, and the worst difference as a share of the tolerance, from the reference as
it ships or from its convolutions in full fp32, whichever is nearer; or how the tile failed. Inputs are of the
distribution that the evaluator draws most, needles if they are drawn as often: what a call takes can hang on
them, as ELU's does on their signs, and exactness does.
`join.py` puts those that won into their entry, and `kbl evaluate` says what counts.

    TRITON_INTERPRET=1 python benchmarks/tiles.py --device cpu --repeats 1

shows without a GPU whether they are right, at the sizes of `<file>.sizes.txt`; in fp32 alone, since Triton's
interpreter multiplies the bits of bf16 as if they were whole numbers. It does not know `bf16x3` either: tiles
with it fail there.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "KernelBench"), str(ROOT)]

from kernel_evaluator.records.keys import KernelKey  # noqa: E402
from kernel_evaluator.records.rows import BOARD_PRECISIONS  # noqa: E402
from upstream_way import load, synchronize  # noqa: E402

from leaderboard.files.submission import load as load_submission  # noqa: E402

DRAFTS = ROOT / "benchmarks" / "kernels" / "drafts"
"""A folder for each entry that they may join."""
AT_ONCE = 12
"""So many drafts compile at a time: each holds its problem's tensors on the device."""
STANDING_BY = 4
"""So many are loaded or being timed: one has its turn, the others wait for it."""

WARM_UPS = 3


def main() -> int:
    """Compile what is left, then time it; exit 1 where a tile failed or time ran out."""
    options = _options()
    if options.one:
        return _try(options)
    precision = load_submission(ROOT / "submissions" / f"{options.entry}.json").precision
    if options.device == "cpu" and precision != "fp32":
        sys.exit(f"error: --device cpu tries drafts in fp32, and those of {options.entry} are in {precision}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done = lines_in(options.out.read_text("utf-8")) if options.out.exists() else []
    known = {(line["kernel"], line["at"]) for line in done}
    part, parts = map(int, options.part.split("/"))
    share = slice(part, None, parts)
    left = {
        path: [at for at in range(len(_tiles(path))) if (path.stem, at) not in known]
        for path in sorted((options.folder or DRAFTS / options.entry).glob("level_*_sample_*.py"))[share]
    }
    deadline = time.monotonic() + options.limit_s
    how = ["--device", options.device, "--precision", precision]
    if options.device == "cuda":
        with ThreadPoolExecutor(AT_ONCE) as pool:
            half = deadline - options.limit_s / 2
            list(pool.map(lambda each: _said(*each, [*how, "--repeats", "0"], half), left.items()))
    lines: list[dict[str, Any]] = []
    how += ["--repeats", str(options.repeats), "--turn", str(options.out)]
    with options.out.open("a", encoding="utf-8") as file, ThreadPoolExecutor(STANDING_BY) as pool:
        for ended in as_completed([pool.submit(_said, *each, how, deadline) for each in left.items()]):
            for line in ended.result():
                lines.append(line)
                file.write(json.dumps(line) + "\n")
                print(_shown(line), flush=True)
            file.flush()
    missing = sum(map(len, left.values())) - len(lines)
    print(f"{missing} tiles are left")
    return 1 if missing or any("failed" in line for line in done + lines) else 0


def _said(path: Path, tiles: list[int], how: list[str], deadline: float) -> list[dict[str, Any]]:
    """What processes of their own say of a file's tiles: one that dies costs the tile that it was at."""
    left, lines = list(tiles), []
    while left and time.monotonic() < deadline:
        command = [sys.executable, __file__, "--one", str(path), "--tiles", ",".join(map(str, left))]
        output, died = _run([*command, *how], deadline)
        new = lines_in(output)
        lines += new
        left = left[len(new) :]
        if left and died:
            lines.append(_line(path, left.pop(0)) | {"failed": died})
    return lines


def lines_in(text: str) -> list[dict[str, Any]]:
    """The lines about tiles in what was written or printed."""
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


def _try(options: argparse.Namespace) -> int:
    """Call a file's kernel with these tiles, so often to time it, and print a line of each."""
    import torch
    from kernel_evaluator.problems import variants
    from kernel_evaluator.problems.deciding import deal_for
    from kernel_evaluator.problems.inputs import PRECISIONS, InputSource
    from kernel_evaluator.problems.problem_set import ProblemSet

    path, device, repeats = options.one, options.device, options.repeats
    key, small = KernelKey.parse(path.stem), path.with_suffix(".sizes.txt")
    problem = ProblemSet().load(key.level, key.problem_id)
    if device == "cpu" and small.exists():
        problem = replace(problem, source=f"{problem.source}\n{small.read_text('utf-8')}")
    dtype, draft = PRECISIONS[options.precision], load(path, path.stem)
    source = InputSource(problem, device, dtype)
    deal = deal_for(problem, options.precision, source.distributions())
    drawn = max(deal.shares, key=lambda name: (deal.shares[name], name == "needles"))
    with torch.no_grad(), torch.device(device), variants.init(deal.variant):
        models = []
        for made in (source.module.Model, draft.ModelNew):
            torch.manual_seed(0)
            models.append(made(*source.module.get_init_inputs()).to(device, dtype))
        inputs = source.draw(0, drawn)
        reference, call = (partial(model, *inputs) for model in models)
        if not repeats:
            for at in options.tiles:
                draft.TILE = (line := _line(path, at))["tile"]
                call()
                print(json.dumps(line), flush=True)
            return 0
        with options.turn.open("rb") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            wanted = _outputs(reference)
            with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
                exact = _outputs(reference)
            reference_ms = _ms(reference, device, repeats)
            for at in options.tiles:
                line = _line(path, at)
                draft.TILE = line["tile"]
                given = _outputs(call)
                worst = min(_worst(each, given, options.precision, drawn) for each in (wanted, exact))
                times = {"reference_ms": reference_ms, "ms": _ms(call, device, repeats)}
                print(json.dumps(line | {"worst": worst} | times), flush=True)
    return 0


def _outputs(call: Callable[[], Any]) -> list[Any]:
    """The tensors of a call that draws what it draws, a dropout's mask, from the same seed as any other."""
    import torch
    from kernel_evaluator.candidate.outputs import flatten

    torch.manual_seed(0)
    return list(flatten(call())[0])


def _worst(wanted: list[Any], given: list[Any], precision: str, drawn: str) -> float:
    from kernel_evaluator.numerics.compare import compare, tolerance_of

    pairs = zip(wanted, given, strict=True)
    return max(compare(want, give, tolerance_of(want, precision, drawn)).worst for want, give in pairs)


def _ms(call: Callable[[], Any], device: str, repeats: int) -> float:
    """The median of some calls in milliseconds, each waited for."""

    def once() -> float:
        started = time.perf_counter()
        call()
        synchronize(device)
        return 1000 * (time.perf_counter() - started)

    for _ in range(min(WARM_UPS, repeats)):
        once()
    return statistics.median(once() for _ in range(repeats))


def _tiles(path: Path) -> list[dict[str, Any]]:
    """The tiles to try, the file's own among them."""
    return list(json.loads(path.with_suffix(".tiles.json").read_text("utf-8")))


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
    parser.add_argument("--entry", default="founders-triton", help="the drafts are for it, in its precision")
    parser.add_argument("--folder", type=Path, help="by default the entry's in kernels/drafts/")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "tiles.jsonl")
    parser.add_argument(
        "--part", default="0/1", help="only this share of the drafts: 0/4 is the first of four"
    )
    parser.add_argument("--limit-s", type=float, default=1e6)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--repeats", type=int, default=20, help="timed calls of each")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--precision", choices=BOARD_PRECISIONS, default="fp32", help=argparse.SUPPRESS)
    parser.add_argument("--tiles", type=_numbers, help=argparse.SUPPRESS)
    parser.add_argument("--turn", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
