"""Sum up what was measured on one GPU: what a kernel costs, how near copies are to 1, what cheats gained.

    python benchmarks/summary.py H100

Reads the recorded rows of its boards and what the red team found there. Writes
`benchmarks/results/summary-<gpu>.json` and the table in README that says what ran where.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "KernelBench"), str(ROOT)]

from evaluator import off_by, speedups_of, within  # noqa: E402
from kernel_evaluator.records.rows import BF16, BOARD_PRECISIONS, ResultFile, board_name  # noqa: E402
from kernel_evaluator.records.version import evaluator_sha256  # noqa: E402
from pages import renew  # noqa: E402

from leaderboard.files.store import recorded_results, write_atomically  # noqa: E402
from leaderboard.files.submission import load  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- ran: written by benchmarks/summary.py -->", "<!-- /ran -->"
COPIES = "pytorch-eager"
"""The entry whose kernels are the references themselves."""
WANTED = (
    COPIES,
    "torch-compile",
    "torch-compile-max-autotune",
    "founders-triton",
    "founders-cuda",
    "founders-cutile",
    "first-light",
)
GPUS = ("H100", "H200")
"""The board's device, and the one that its first rows are from."""

REDTEAM = "python benchmarks/redteam.py --device cuda --layers --overhead --write"
DUE = " (due)"
NEAR = 0.01
"""So far from 1 a copy's speedup may be to count as near."""


def main() -> None:
    """Write the summary of the named GPU, and the table of all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("gpu", choices=GPUS)
    gpu = parser.parse_args().gpu
    text = json.dumps(summary_of(gpu), indent=1) + "\n"
    write_atomically(RESULTS / f"summary-{gpu}.json", text)
    renew(ROOT / "README.md", BEGIN, END, table())


@cache
def summary_of(gpu: str) -> dict[str, Any]:
    """What the files say of one GPU model; `evaluators` counts rows by the digest that made them."""
    results = [each for each in recorded_results(ROOT / "data") if each.gpu == gpu and each.sizes == "full"]
    return {
        "gpu": gpu,
        "evaluators": Counter(row.evaluator_sha256 for each in results for row in each.rows),
        "boards": {
            board: {each.entry: _entry(each) for each in results if each.board == board}
            for board in sorted({each.board for each in results})
        },
        "redteam": _redteam(RESULTS / f"redteam-{gpu}.json"),
    }


def _entry(result: ResultFile) -> dict[str, Any]:
    digests = load(ROOT / "submissions" / f"{result.entry}.json").digests
    result = replace(
        result, rows=tuple(row for row in result.rows if digests.get(row.key) == row.kernel_sha256)
    )
    first = [row.gpu_seconds for row in result.rows]
    again = [row.second["gpu_seconds"] for row in result.rows if row.second is not None]
    said: dict[str, Any] = {
        "sent": len(digests),
        "kernels": len(result.rows),
        "correct": sum(row.is_correct for row in result.rows),
        "evaluators": Counter(row.evaluator_sha256 for row in result.rows),
        "gpu_seconds": _spread(first),
        "second_evaluations": {"kernels": len(again), "gpu_seconds": _spread(again) if again else None},
    }
    if base_of(result.entry) == COPIES:
        said["copies"] = _copies(result)
    return said


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "mean": round(statistics.fmean(ordered), 3),
        "p50": round(statistics.median(ordered), 3),
        "p95": round(ordered[int(0.95 * (len(ordered) - 1))], 3),
        "max": round(ordered[-1], 3),
    }


def _copies(result: ResultFile) -> dict[str, Any]:
    """How near to 1 the speedups of the references' own copies are; what has none counts as far."""
    speedups = speedups_of(result)
    worst = max(speedups, key=lambda key: off_by(speedups[key]))
    return {
        "within_1_percent": round(within(speedups.values(), NEAR) / len(result.rows), 4),
        "worst": {"kernel": worst, "speedup": round(speedups[worst], 4)},
    }


def _redteam(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    report = json.loads(path.read_text("utf-8"))
    return {name: report[name] for name in ("evaluator_sha256", "exploits", "honest")}


def base_of(entry: str) -> str:
    """The name of an entry without the precision of its board."""
    return entry.removesuffix(f"-{BF16}")


def table() -> str:
    """What ran where, as Markdown: a row for each thing that is to run, and the command that fills it.

    What another evaluator than the present one judged, be it in part, is due.
    """
    summaries = {gpu: summary_of(gpu) for gpu in GPUS}
    boards = [(gpu, precision) for gpu in GPUS for precision in BOARD_PRECISIONS]
    names = [board_name(gpu, "full", precision) for gpu, precision in boards]
    lines = [f"| | {' | '.join(names)} | command |", "|---|" + "--:|" * len(names) + "---|"]
    for entry in WANTED:
        names = {"fp32": entry, BF16: f"{entry}-{BF16}"}
        sent = {
            precision: name
            for precision, name in names.items()
            if (ROOT / "submissions" / f"{name}.json").is_file()
        }
        cells = [
            _cell(summaries[gpu]["boards"].get(board_name(gpu, "full", precision), {}).get(sent[precision]))
            if precision in sent
            else ""
            for gpu, precision in boards
        ]
        command = f"kbl evaluate submissions/{entry}{f'[-{BF16}]' if BF16 in sent else ''}.json"
        lines.append(f"| {entry} | {' | '.join(cells)} | `{command}` |")
    team = [_tried(summaries[gpu]["redteam"]) if precision == "fp32" else "" for gpu, precision in boards]
    lines.append(f"| cheats that won, honest kernels turned away | {' | '.join(team)} | `{REDTEAM}` |")
    return "\n".join(lines)


def _cell(said: dict[str, Any] | None) -> str:
    if said is None:
        return "missing"
    left = said["sent"] - said["kernels"]
    more = f", {left} missing" if left else ""
    shown = f"{said['correct']} of {said['kernels']}, {said['gpu_seconds']['mean']:.2f} s{more}"
    return shown + _due(said["evaluators"])


def _tried(said: dict[str, Any] | None) -> str:
    if said is None:
        return "missing"
    exploits, honest = said["exploits"], said["honest"]
    won, away = len(exploits["won"]), len(honest["turned_away"])
    return f"{won} of {exploits['total']}, {away} of {honest['total']}" + _due([said["evaluator_sha256"]])


def _due(evaluators: Iterable[str]) -> str:
    return "" if {*evaluators} == {evaluator_sha256()} else DUE


if __name__ == "__main__":
    main()
