"""Judge every known cheat and every odd but honest kernel with the evaluator, and write down what it said.

    python benchmarks/redteam.py --device cpu --out build/redteam
    python benchmarks/redteam.py --device cuda --out build/redteam --limit-s 240

Cases come from tests/redteam/manifest.json, honest rewrites from benchmarks/rewrites.py. What is done is kept
in OUT, one line a case, and not done again while neither the case nor the evaluator changes; the time limit
stops between verdicts. `--write` puts a summary of all that is done into benchmarks/results/ and docs/. What
such a summary says of the same cases by the same evaluator counts as done where `--go-on-from` names it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "KernelBench"), str(ROOT)]

from kernel_evaluator.engines.local import LocalEngine  # noqa: E402
from kernel_evaluator.machine.extras import is_installed  # noqa: E402
from kernel_evaluator.problems.deciding import deal_of, read  # noqa: E402
from kernel_evaluator.problems.jobs import Job, Settings, Verdict  # noqa: E402
from kernel_evaluator.problems.problem_set import Problem, ProblemSet, read_sizes  # noqa: E402
from kernel_evaluator.records.keys import KernelKey  # noqa: E402
from kernel_evaluator.records.version import evaluator_sha256  # noqa: E402
from redteam_report import RESULTS, dump, summary, write_document  # noqa: E402

from leaderboard.files.submission import kernel_sha256  # noqa: E402
from leaderboard.stages.boards import read_ranked  # noqa: E402

CORPUS = ROOT / "tests" / "redteam"
LAYER_CASES = {
    "format": "x38 x44 e53",
    "panel": "e43 e42 e39 e41 x35",
    "affine": "e44 x26 x36",
    "poison": "x43 e31 e29 e84",
    "timed_outputs": "e26 e27 x03 x08 x11 x12 x17 e48",
    "clocks": "x07b e08 e12 e11 x02",
    "isolation": "x39 x40",
    "floor": "x41",
}
"""Some of the cases that each layer is there for. Only harmless ones run without walls."""

LEFT_BEHIND = Path("/tmp/redteam-was-here")
"""What two harmless cases write, to show that nothing reaches the next kernel while the walls stand."""

OVERHEAD_PROBLEMS = {
    "cpu": ("1_1", "1_19", "1_47", "1_23", "2_76", "2_12", "3_5"),
    "cuda": tuple(f"{level}_{at}" for level in (1, 2, 3) for at in range(3, 51 if level == 3 else 101, 3)),
}

GPU_SIZES: dict[str, dict[str, Any]] = {
    "1_19": {"batch_size": 256},
    "1_35": {"batch_size": 8},
    "1_33": {"batch_size": 8},
    "1_47": {"batch_size": 16},
    "1_48": {"batch_size": 16},
    "1_51": {"batch_size": 8},
    "1_90": {"batch_size": 4096},
    "1_94": {"batch_size": 4096},
    "1_100": {"batch_size": 8192, "input_shape": (8192,)},
}
"""On a GPU most cases run smaller than graded, since a mechanism does not depend on the size."""

TIMEOUTS_S = {"cpu": 90.0, "cuda": 60.0}
SHORT_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Case:
    """One file to judge. `off` names the layers switched off for it."""

    id: str
    kind: str
    problem: Problem = field(repr=False)
    source: str = field(repr=False)
    expect: tuple[str, ...] = ("correct",)
    twin: str = ""
    layer: str = ""
    off: tuple[str, ...] = ()
    note: str = ""
    uncertified: bool = False
    timeout_s: float = 60.0
    memory_gb: float = 16.0
    measure: bool = True
    label: str = ""

    @property
    def name(self) -> str:
        """What tells it from the same file under other settings."""
        return self.id if not self.off else f"{self.id}-without-{'-'.join(self.off)}"

    @property
    def is_copy(self) -> bool:
        """Whether it is the copy of a reference, whose judging is timed."""
        return self.id.startswith("copy-")

    def place(self, nth: int) -> int:
        """By what cases are shared among GPUs: those of a layer, and copies of a problem, stay together."""
        if self.is_copy:
            return self.problem.problem_id
        return [*LAYER_CASES].index(self.off[0]) if self.off else nth

    def told(self) -> dict[str, Any]:
        """What a record says of the case itself."""
        names = ("name", "id", "kind", "expect", "off", "twin", "layer", "note", "label", "uncertified")
        return {**{name: getattr(self, name) for name in names}, "digest": self.digest()}

    def digest(self) -> str:
        """Changes when the case, its problem or the evaluator does."""
        parts = (self.name, self.source, self.problem.sized_source, evaluator_sha256())
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_cases(device: str) -> list[Case]:
    """Read the manifest: the cases that this device can run, most telling first."""
    manifest = json.loads((CORPUS / "manifest.json").read_text("utf-8"))
    by_file = {entry["file"]: entry["id"] for entry in manifest["cases"]}
    runnable = [e for e in manifest["cases"] if _runs_here(e, device)]
    ranked, undecided = read_ranked(), _undecided()
    cases = [_case(entry, by_file, device, ranked, undecided) for entry in runnable]
    return sorted(cases, key=lambda case: (_rank(case), case.id))


def _rank(case: Case) -> int:
    order = ["twin", "x", "e", "h"]
    return next(at for at, start in enumerate(order) if case.id.startswith(start))


def _runs_here(entry: dict[str, Any], device: str) -> bool:
    if entry["needs"] == "gpu" and device != "cuda":
        return False
    for needed in entry.get("requires", []):
        if needed.startswith("$"):
            if not os.environ.get(needed[1:]):
                return False
        elif not is_installed(needed):
            return False
    return True


def _undecided() -> frozenset[str]:
    """Digests of problems that no timed inputs decide in fp32: at reduced sizes these are others."""
    entries = [found for sizes in read()["problems"].values() for found in sizes.values()]
    looked_at = [found for found in entries if "error" not in found]
    return frozenset(found["problem_sha256"] for found in looked_at if deal_of(found).undecided)


def _case(
    entry: dict[str, Any],
    by_file: dict[str, str],
    device: str,
    ranked: Collection[str],
    undecided: Collection[str],
) -> Case:
    level, problem_id = map(int, entry["problem"].split("_"))
    posed = problem = ProblemSet().load(level, problem_id)
    if "problem_file" in entry:
        source = (CORPUS / entry["problem_file"]).read_text("utf-8")
        sizes = entry.get("sizes", {}) if device == "cuda" else {}
        problem = replace(problem, source=source, name=entry["id"], overrides=sizes)
    elif device == "cpu":
        problem = problem.reduced(read_sizes())
    elif not entry.get("full"):
        sizes = {**GPU_SIZES.get(entry["problem"], {}), **entry.get("sizes", {})}
        problem = replace(problem, overrides=sizes)
    endless = entry["expect"] == ["timeout"] or entry.get("short")
    return Case(
        id=entry["id"],
        kind=entry["kind"],
        problem=problem,
        source=(CORPUS / entry["file"]).read_text("utf-8"),
        expect=tuple(entry["expect"]),
        twin=by_file.get(entry.get("twin", ""), ""),
        layer=entry["layer"],
        note=entry.get("note", ""),
        label=entry.get("wants_label", ""),
        uncertified=bool(entry.get("uncertified"))
        or problem.sha256 in undecided
        or (problem.sha256 == posed.sha256 and entry["problem"] not in ranked),
        timeout_s=SHORT_S if endless else TIMEOUTS_S[device],
        memory_gb=entry.get("memory_gb", 16.0 if device == "cuda" else 6.0),
    )


def layer_cases(cases: Sequence[Case]) -> list[Case]:
    """For each layer, cases that it is there for, again with the layer switched off."""
    by_id = {case.id: case for case in cases}
    return [
        replace(by_id[name], off=(layer,))
        for layer, names in LAYER_CASES.items()
        for name in names.split()
        if name in by_id
    ]


def overhead_cases(device: str) -> list[Case]:
    """Copies of references, judged with every layer and with none."""
    from rewrites import copy

    found = []
    for number in OVERHEAD_PROBLEMS[device]:
        level, problem_id = map(int, number.split("_"))
        problem = ProblemSet().load(level, problem_id)
        problem = problem.reduced(read_sizes()) if device == "cpu" else problem
        case = Case(id=f"copy-{number}", kind="honest", problem=problem, source=copy(problem) or "")
        found += [case, replace(case, off=tuple(LAYER_CASES))]
    return found


def run(cases: Iterable[Case], device: str, done: Done, deadline: float) -> None:
    """Judge what is not done yet, until the deadline."""
    open_cases = [case for case in cases if not done.has(case)]
    for group in _groups(open_cases):
        if time.monotonic() > deadline:
            return
        _run_group(group, device, done, deadline)


def _groups(cases: Sequence[Case]) -> Iterator[list[Case]]:
    """Cases that one engine can take at once: the same settings, and keys that tell them apart."""
    groups: dict[Any, list[Case]] = {}
    seen: dict[Any, int] = {}
    for case in cases:
        how = (case.off, case.timeout_s, case.memory_gb, case.measure, bool(case.label), case.is_copy)
        place = (*how, case.problem.level, case.problem.problem_id)
        nth = seen[place] = seen.get(place, -1) + 1
        groups.setdefault((*how, nth // 100), []).append(case)
    yield from groups.values()


def _run_group(group: list[Case], device: str, done: Done, deadline: float) -> None:
    first = group[0]
    settings = Settings(
        device=device,
        sizes="reduced" if device == "cpu" else "full",
        timeout_s=first.timeout_s,
        memory_gb=first.memory_gb,
        measure=first.measure,
        profile_launches=bool(first.label),
        switched_off=first.off,
    )
    jobs: dict[KernelKey, Case] = {}
    for case in group:
        place = (case.problem.level, case.problem.problem_id)
        sample = sum((key.level, key.problem_id) == place for key in jobs)
        jobs[KernelKey(*place, sample)] = case
    if "isolation" in first.off:
        LEFT_BEHIND.unlink(missing_ok=True)
    started, seconds = time.monotonic(), None
    wanted = [Job(key=key, source=case.source, problem=case.problem) for key, case in jobs.items()]
    for verdict in LocalEngine().run(wanted, settings):
        case = jobs[verdict.row.key]
        is_first = seconds is None
        seconds = time.monotonic() - started
        started = time.monotonic()
        done.add(case, verdict, None if is_first else seconds)
        row = verdict.row
        speed = f"{row.speedup:8.3f}x" if row.speedup else " " * 9
        said = f"{row.failure.name}: {row.failure.message[:90]!r}" if row.failure else ""
        flag = " " if row.status.value in case.expect else "!"
        print(f"{flag} {case.name:34} {row.status.value:14} {speed} {seconds:5.1f} s {said}", flush=True)
        if time.monotonic() > deadline:
            print("the time limit is reached", flush=True)
            return


class Done:
    """What has been judged so far, one line of JSON a case."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text("utf-8").splitlines():
                record = json.loads(line)
                self.rows[record["name"]] = record

    def take(self, report: dict[str, Any], cases: Iterable[Case]) -> None:
        """Count as done what a report of one evaluator says of these very cases."""
        (evaluator,) = report["judged_by"]
        said = {each["name"]: each for each in report["cases"]}
        for case in cases:
            known = said.get(case.name, {})
            if known.get("digest") == case.digest():
                digests = {"evaluator_sha256": evaluator, "kernel_sha256": kernel_sha256(case.source)}
                row = {**known["row"], **digests}
                record = {**case.told(), **known, "row": row, "environment": report["environment"]}
                self.rows.setdefault(case.name, record)

    def has(self, case: Case) -> bool:
        """Whether this very case is done."""
        known = self.rows.get(case.name)
        return known is not None and known["digest"] == case.digest()

    def add(self, case: Case, verdict: Verdict, seconds: float | None) -> None:
        """Keep a verdict, and how long after the one before it came, where there was one."""
        said = {"row": verdict.row.to_json(), "environment": asdict(verdict.environment)}
        record = {**case.told(), "seconds": seconds, **said}
        self.rows[case.name] = record
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def current(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Leave out verdicts on a kernel that is no longer the corpus's."""
    manifest = json.loads((CORPUS / "manifest.json").read_text("utf-8"))
    known = {
        e["id"]: hashlib.sha256((CORPUS / e["file"]).read_bytes()).hexdigest() for e in manifest["cases"]
    }
    return {
        name: record
        for name, record in rows.items()
        if known.get(record["id"]) in (None, record["row"]["kernel_sha256"])
    }


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "redteam")
    parser.add_argument("--limit-s", type=float, default=1e9)
    parser.add_argument("--only", default="", help="ids separated by commas")
    parser.add_argument("--go-on-from", type=Path, help="a report whose verdicts count as done")
    parser.add_argument("--part", default="", help="only this share: 0/4 is the first of four")
    parser.add_argument("--rewrites", type=int, default=0, help="how many honest rewrites to judge as well")
    parser.add_argument(
        "--overhead", action="store_true", help="judge copies of references without layers too"
    )
    parser.add_argument(
        "--layers", action="store_true", help="judge each layer's cases with the layer off as well"
    )
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/redteam-<gpu>.json")
    chosen = parser.parse_args()
    if chosen.device == "auto":
        import torch

        chosen.device = "cuda" if torch.cuda.is_available() else "cpu"
    deadline = time.monotonic() + chosen.limit_s
    done = Done(chosen.out / f"redteam-{chosen.device}.jsonl")
    cases = read_cases(chosen.device)
    if chosen.layers:
        cases += layer_cases(cases)
    if chosen.overhead:
        cases += overhead_cases(chosen.device)
    if chosen.rewrites:
        from rewrites import rewrite_cases

        cases += rewrite_cases(chosen.device, chosen.rewrites)
    if chosen.go_on_from:
        done.take(json.loads(chosen.go_on_from.read_text("utf-8")), cases)
    if chosen.part:
        at, count = map(int, chosen.part.split("/"))
        cases = [case for nth, case in enumerate(cases) if case.place(nth) % count == at]
    if chosen.only:
        wanted = set(chosen.only.split(","))
        cases = [case for case in cases if case.id in wanted or case.name in wanted]
    run(cases, chosen.device, done, deadline)
    report = summary(current(done.rows))
    for name in ("exploits", "honest"):
        print(name, json.dumps(report[name]))
    print("layers", json.dumps(report["layers"]))
    print("overhead", json.dumps(report["overhead"]))
    left = [case.name for case in cases if not done.has(case)]
    print(f"{len(left)} cases are left" + (f": {' '.join(left[:20])}" if left else ""))
    if chosen.write:
        path = RESULTS / f"redteam-{report['environment']['gpu']}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".new")
        temporary.write_text(dump(report), "utf-8")
        temporary.replace(path)
        write_document()
        print("written", path)
    bad = report["exploits"]["won"] or report["honest"]["turned_away"] or left
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
