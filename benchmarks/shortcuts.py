"""What would a shortcut gain that knows every call's inputs? By simulation, from what `kbl certify` found.

    python benchmarks/shortcuts.py                       the rules over all problems at full size
    python benchmarks/shortcuts.py --sizes reduced
    python benchmarks/shortcuts.py --precision bf16
    python benchmarks/shortcuts.py --write               the same, and the tables of docs/trust.md

A twin of the reference that some inputs catch must pass on no more than an eighth of the timed calls, at 2, 8
and 256 calls a round, but for one that saves next to nothing. And a policy with a perfect oracle of each
call's inputs, which takes the cheapest twin that passes there, must gain no more than a tenth. Inputs are
dealt as judging deals them. Exit status: 1 if a rule is broken.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "KernelBench"), str(ROOT)]

from kernel_evaluator.problems import deciding  # noqa: E402
from kernel_evaluator.records.rows import BOARD_PRECISIONS  # noqa: E402
from kernel_evaluator.timing.deals import Deck  # noqa: E402
from pages import renew  # noqa: E402

CALLS = (2, 8, 256)
TRIED_CALLS = 8192
MOST_PASSING, MOST_GAIN = 1 / 8, 1.10

COSTS = {
    "tf32": 1 / 8,
    "fp16": 1 / 16,
    "bf16": 1 / 16,
    "fp8": 1 / 32,
    "half arithmetic": 1 / 16,
    "one in 64 left out": 63 / 64,
    "one in 8 read": 1 / 8,
    "one in 8 summed": 1 / 8,
    "half of axis 0": 1 / 2,
    "half of axis -2": 1 / 2,
    "half of axis -1": 1 / 2,
    "earlier output for half the batch": 1 / 2,
}
"""What a call of a twin costs at least, beside the reference's; a step left out half, others nothing."""

BEGIN = "<!-- sharpness in {}: written by benchmarks/shortcuts.py --write -->"
END = "<!-- end of sharpness in {} -->"


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """One problem: how often the most frequent twin passes, and what the policy gains."""

    passing: float
    twin: str
    gain: float


def main() -> None:
    """Simulate, print, and write where asked to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", choices=["full", "reduced"], default="full")
    parser.add_argument("--precision", choices=BOARD_PRECISIONS, default="fp32")
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    found = deciding.read(deciding.sharpness_of(chosen.precision))
    entries = found["problems"].get(chosen.sizes, {})
    if not entries:
        raise SystemExit(f"no problem was looked at in {chosen.sizes} sizes: kbl certify does that")
    text = "\n".join(report(entries))
    print(text)
    if chosen.write:
        begin, end = (each.format(chosen.precision) for each in (BEGIN, END))
        renew(ROOT / "docs" / "trust.md", begin, end, text)
    raise SystemExit(1 if "breaks" in text else 0)


def report(entries: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the report, as Markdown."""
    known = {key: entry for key, entry in entries.items() if "error" not in entry}
    deals = {key: deciding.deal_of(entry) for key, entry in known.items()}
    ranked = {key: deal for key, deal in deals.items() if not deal.undecided}
    yield f"Of {len(entries)} problems {len(ranked)} are decided by their timed inputs."
    yield ""
    yield "| calls a round | most calls on which a twin passes | largest gain of the oracle |"
    yield "|--:|--:|--:|"
    broken = []
    for calls in CALLS:
        found = {key: simulate(known[key], deal, calls) for key, deal in ranked.items()}
        worst = max(found, key=lambda key: found[key].passing)
        dearest = max(found, key=lambda key: found[key].gain)
        yield (
            f"| {calls} | {found[worst].passing:.1%} ({found[worst].twin}, {_name(worst)}) "
            f"| {found[dearest].gain - 1:.1%} ({_name(dearest)}) |"
        )
        broken += [
            f"{_name(key)} breaks a rule at {calls} calls: {one}"
            for key, one in found.items()
            if one.passing > MOST_PASSING or one.gain > MOST_GAIN
        ]
    yield ""
    yield from broken
    blunt = Counter(twin for deal in ranked.values() for twin in deal.blunt)
    yield "Twins that no inputs tell from the reference, on so many ranked problems: " + (
        ", ".join(f"{twin} {count}" for twin, count in blunt.most_common()) + "." if blunt else "none."
    )
    yield ""
    for key, deal in deals.items():
        if deal.undecided:
            yield f"- {_name(key)} is not decided: {deal.undecided}."
    for key, entry in entries.items():
        if "error" in entry:
            yield f"- {_name(key)} could not be looked at: {entry['error']}."


def simulate(entry: Mapping[str, Any], deal: deciding.Deal, calls: int) -> Simulated:
    """Deal rounds; count on which calls a twin passes that is caught somewhere, and let the oracle choose."""
    deck = Deck(deal.shares)
    passes = {
        name: [twin for twin in (seen or {}).get("passes", ()) if twin not in deal.blunt]
        for name, seen in entry["inputs"].items()
    }
    counts: Counter[str] = Counter()
    ratios = []
    rounds = max(1, TRIED_CALLS // calls)
    for _ in range(rounds):
        names = deck.deal(calls)
        for name in names:
            counts.update(passes[name])
            deck.see(name)
        spent = sum(min((_cost(twin) for twin in passes[name]), default=1.0) for name in names)
        ratios.append(calls / spent if spent else float("inf"))
    for negligible in deciding.NEGLIGIBLE:
        del counts[negligible]
    twin, count = counts.most_common(1)[0] if counts else ("none", 0)
    return Simulated(passing=count / (rounds * calls), twin=twin, gain=statistics.median(ratios))


def _cost(twin: str) -> float:
    return 0.5 if twin.startswith("step ") else COSTS.get(twin, 0.0)


def _name(key: str) -> str:
    return key.replace("_", "/")


if __name__ == "__main__":
    main()
