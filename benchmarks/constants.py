"""What needs each constant of the method: recorded rounds judged otherwise without it, tests that fail.

    python benchmarks/constants.py [--only timing.stopping.HALF_WIDTH] [--workers 2] [--write]

What follows from rounds is worked out again from all that are on record, with the constant at nothing and
without bound. In a copy of this checkout each constant is made four times as large, then a quarter, and the
tests of its module run; the first that fails is named. `--work` goes on where it was stopped. With `--write`
what is found goes into benchmarks/results/constants.json and docs/constants.md.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "KernelBench"), str(ROOT)]

from kernel_evaluator.records.version import evaluator_sha256  # noqa: E402
from kernel_evaluator.timing import measurement, pairing, placement, suspicions  # noqa: E402
from kernel_evaluator.timing.measurement import Measurement  # noqa: E402
from pages import renew  # noqa: E402

from leaderboard.files.store import write_atomically  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "constants.json"
MEASURED = ROOT / "benchmarks" / "constants.toml"
"""Where a constant was measured that is a choice of cost or exactness, or comes from elsewhere."""
PAGE = ROOT / "docs" / "constants.md"
BEGIN = "<!-- constants: written by benchmarks/constants.py --write -->"
END = "<!-- end of constants -->"
RECORDS = ("data", "tests/golden", "benchmarks/results")
BY_ROUNDS = (measurement, pairing, placement, suspicions)
"""All that a row says of time follows from its rounds by these."""
TESTS = {
    "judging.judge": ("tests/evaluator/judging/test_busy_host.py",),
    "judging.trials": tuple(f"tests/evaluator/judging/test_{n}.py" for n in ("slow_kernels", "fragile")),
    "machine.figures": ("tests/evaluator/machine/test_figures.py", "tests/board/stages/test_believed.py"),
    "numerics": ("tests/evaluator/numerics", "-k", "not interpreter"),
    "oracle": ("tests/evaluator/judging/test_evaluator.py",),
    "problems.deciding": ("tests/evaluator/proofs/test_sharpness.py",),
    "problems.inputs": ("tests/evaluator/problems/test_inputs.py",),
    "scores": ("tests/evaluator/test_scores.py",),
    "stand.cores": ("tests/evaluator/stand/test_cores.py",),
    "timing": ("tests/evaluator/timing",),
}
FACTORS = (4.0, 0.25)
BOUNDS = {"nothing": 0.0, "no bound": 1e9}
WORTH = 0.01
_ROW = re.compile(r"^\| `([a-z_.]+)\.([A-Z]\w*)` \| ([^|]*\d[^|]*) \|", re.MULTILINE)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - |$)", re.MULTILINE)


class Recorded(NamedTuple):
    """One evaluation on record with its rounds."""

    measured: Measurement
    device: str
    kind: str


def constants() -> dict[str, str]:
    """The names of all constants of the method that are numbers, and their values in words."""
    text = (ROOT / "docs" / "method.md").read_text("utf-8")
    rows = _ROW.findall(text.partition("## Constants")[2])
    return {f"{module}.{name}": value for module, name, value in rows}


def scaled(value: Any, factor: float) -> Any:
    """So many times a number, or each of a mapping's; a whole one stays one, and above zero."""
    if isinstance(value, dict):
        return {key: scaled(each, factor) for key, each in value.items()}
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def recorded() -> Iterator[Recorded]:
    """All evaluations on record that carry their rounds."""
    for path in sorted(each for folder in RECORDS for each in (ROOT / folder).rglob("*.json*")):
        said = path.read_bytes()
        text = (gzip.decompress(said) if path.suffix == ".gz" else said).decode("utf-8")
        parts = text.splitlines() if ".jsonl" in path.name else [text]
        device = "cpu" if "CPU" in path.name else "cuda"
        for part in filter(str.strip, parts):
            yield from _measured_in(json.loads(part), device, "honest")


def _measured_in(said: Any, device: str, kind: str) -> Iterator[Recorded]:
    if isinstance(said, list):
        for each in said:
            yield from _measured_in(each, device, kind)
    elif isinstance(said, dict):
        kind = said["kind"] if said.get("kind") in ("honest", "exploit") else kind
        rounds = said.get("rounds")
        if isinstance(rounds, dict) and "candidate_ms" in rounds:
            yield Recorded(Measurement.from_json(rounds), device, kind)
        for each in said.values():
            yield from _measured_in(each, device, kind)


def said_of(each: Recorded) -> tuple[Any, ...]:
    """What follows from rounds: suspicion, labels, speedup; nothing where a rule cannot be applied."""
    try:
        suspicions.judge_all(each.measured, each.device)
        name = each.measured.suspicion[0] if each.measured.suspicion else None
        return name, tuple(each.measured.labels), each.measured.fields()["speedup"]
    except (ArithmeticError, IndexError, ValueError):
        return None, ("cannot be judged",), 1.0


def judged_otherwise(
    constant: str, rows: Sequence[Recorded], usual: Sequence[tuple[Any, ...]]
) -> dict[str, dict[str, int]]:
    """How many honest kernels and exploits are judged otherwise with a constant of nothing, or no bound."""
    module, _, name = constant.rpartition(".")
    own = getattr(import_module(f"kernel_evaluator.{module}"), name)
    users = [each for each in BY_ROUNDS if getattr(each, name, None) is own]
    found = {}
    for bound, factor in BOUNDS.items():
        is_mapping = isinstance(own, dict)
        changed = {k: v * factor for k, v in own.items()} if is_mapping else type(own)(own * factor)
        for user in users:
            setattr(user, name, changed)
        now = [said_of(each) for each in rows]
        for user in users:
            setattr(user, name, own)
        differ = [
            each.kind
            for each, a, b in zip(rows, now, usual, strict=True)
            if a[:2] != b[:2] or abs(a[2] / b[2] - 1) > WORTH
        ]
        found[bound] = {kind: differ.count(kind) for kind in ("honest", "exploit")}
    return found


def copy_of_checkout(folder: Path) -> Path:
    """A copy of what git holds, as it lies here."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def who_fails(checkout: Path, constant: str, factor: float) -> str | None:
    """The first test of its module that fails with a constant changed, again when it runs alone."""
    module, _, name = constant.rpartition(".")
    tests = TESTS.get(module) or TESTS.get(module.partition(".")[0])
    if not tests:
        return None
    path = checkout / "KernelBench" / "kernel_evaluator" / f"{module.replace('.', '/')}.py"
    value = scaled(getattr(import_module(f"kernel_evaluator.{module}"), name), factor)
    own = path.read_text("utf-8")
    path.write_text(own + f"\n\n{name} = {value!r}\n", "utf-8")
    by_chance: list[str] = []
    try:
        while found := _first_failure(checkout, [*tests, *(f"--deselect={test}" for test in by_chance)]):
            if _first_failure(checkout, [found]):
                return found
            by_chance.append(found)
        return None
    finally:
        path.write_text(own, "utf-8")


def _first_failure(checkout: Path, chosen: Sequence[str]) -> str | None:
    paths = [str(checkout), str(checkout / "KernelBench"), str(checkout / "benchmarks")]
    (checkout.parent / "temporary").mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(checkout.parent / "temporary"),
    }
    command = [sys.executable, "-m", "pytest", "-x", "--no-header", "--tb=no", "-p", "no:xdist", *chosen]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    found = _FAILED.search(done.stdout)
    if done.returncode and not found:
        raise SystemExit(f"error: pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr}")
    return found[1] if found else None


def page(found: dict[str, Any], count: int, day: str) -> str:
    """The table, as Markdown; `day` is that of the count."""
    measured = tomllib.loads(MEASURED.read_text("utf-8"))
    values = constants()
    lines = [
        f"Of {count} evaluations on record on {day}. Honest kernels and exploits are counted apart.",
        "",
        "| constant | value | at nothing | without bound | at four times | at a quarter | measured |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, each in found.items():
        rows = each.get("rows") or {}
        cells = [f"{r['honest']} and {r['exploit']}" if (r := rows.get(bound)) else "" for bound in BOUNDS]
        tests = [_short(each["tests"].get(f"x{factor:g}")) for factor in FACTORS]
        where = _where(measured.get(name))
        lines.append(" | ".join([f"| `{name}`", values[name], *cells, *tests, where]) + " |")
    return "\n".join(lines)


def _where(measured: int | str | None) -> str:
    """A decision by its number, as a link; what is no decision as it stands."""
    if not isinstance(measured, int):
        return measured or ""
    (path,) = (ROOT / "docs" / "decisions").glob(f"{measured:04}-*.md")
    return f"[decision {measured}](decisions/{path.name})"


def _short(test: str | None) -> str:
    return f"`{test.rpartition('::')[2].partition('[')[0]}`" if test else ""


def main() -> None:
    """Print what is found of each constant, and keep it if asked."""
    options = _options()
    work = options.work / "constants.jsonl"
    options.work.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in work.read_text("utf-8").splitlines()] if work.exists() else []
    done: dict[tuple[str, Any], Any] = {(each["constant"], each["what"]): each["found"] for each in known}
    wanted = options.only.split(",") if options.only else list(constants())

    def note(name: str, what: Any, found: Any) -> None:
        done[name, what] = found
        with work.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"constant": name, "what": what, "found": found}) + "\n")
        sys.stdout.write(f"{name}, {what}: {found or 'nothing'}\n")
        sys.stdout.flush()

    rows = list(recorded())
    usual = [said_of(each) for each in rows]
    of_rounds = {each.__name__.removeprefix("kernel_evaluator.") for each in BY_ROUNDS}
    for name in wanted:
        if name.rpartition(".")[0] in of_rounds and (name, "rows") not in done:
            note(name, "rows", judged_otherwise(name, rows, usual))
    left = [(name, factor) for name in wanted for factor in FACTORS if (name, f"x{factor:g}") not in done]
    copies: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.workers) as pool:
        for at in range(options.workers):
            copies.put(copy_of_checkout(Path(folder) / str(at) / "checkout"))

        def judge(pair: tuple[str, float]) -> tuple[str, float, str | None]:
            checkout = copies.get()
            try:
                return *pair, who_fails(checkout, *pair)
            finally:
                copies.put(checkout)

        for name, factor, test in pool.map(judge, left):
            note(name, f"x{factor:g}", test)
    if options.write:
        found = {
            name: {
                "rows": done.get((name, "rows")),
                "tests": {f"x{factor:g}": done.get((name, f"x{factor:g}")) for factor in FACTORS},
            }
            for name in constants()
        }
        day = datetime.now(UTC).date().isoformat()
        said = {
            "evaluator_sha256": evaluator_sha256(),
            "evaluations": len(rows),
            "day": day,
            "constants": found,
        }
        write_atomically(RESULT, json.dumps(said, indent=1) + "\n")
        renew(PAGE, BEGIN, END, page(found, len(rows), day))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="names of constants, as in docs/method.md")
    parser.add_argument("--workers", type=int, default=1, help="so many at once")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "constants", help="what is done so far")
    parser.add_argument("--write", action="store_true", help="keep what is found")
    return parser.parse_args()


if __name__ == "__main__":
    main()
