"""Everything that is measured on GPUs, as one run that can be stopped and continued.

    python benchmarks/gpu.py --work build/gpu --limit-s 1500 --gpus 0,1

Each step is a command of this repository. A GPU takes the first step that nobody has done, with its share of
the processor cores to itself; a step is stopped when the time is up, and the next run continues it from what
it left. `steps.jsonl` says what ran, where and how long; what each printed lies beside it.
`kbl record` takes the work files from `evaluations/` and `part-*/`; `benchmarks/redteam.py --only none
--write` makes its report from the lines of `redteam-*/`, put together, and `benchmarks/evaluator.py --runs`
from two runs of copies, beside which nothing else should run: `--only` with their steps makes these.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product, starmap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "KernelBench"), str(ROOT)]

from generic import CHEATS, PARTS  # noqa: E402
from kernel_evaluator.machine.devices import visible_devices  # noqa: E402
from kernel_evaluator.machine.extras import is_installed  # noqa: E402
from kernel_evaluator.machine.figures import gpu_model  # noqa: E402
from kernel_evaluator.problems.certificates import path_for  # noqa: E402
from kernel_evaluator.problems.deciding import sharpness_of  # noqa: E402
from kernel_evaluator.records.rows import BF16  # noqa: E402
from kernel_evaluator.records.version import evaluator_sha256  # noqa: E402
from tiles import DRAFTS  # noqa: E402

from leaderboard.files.store import write_atomically  # noqa: E402

KBL = [sys.executable, "-c", "from leaderboard.cli import app; app()"]
PROBLEMS = [f"{level}/{at}" for level, count in ((1, 100), (2, 100), (3, 50)) for at in range(1, count + 1)]
REDTEAM_PARTS = TILES_PARTS = 4
REPORTS = {"reality": ("reality",), "redteam": tuple(f"redteam-{at}" for at in range(REDTEAM_PARTS))}
"""The steps of a report. What the present evaluator reported is done again only where `--only` names it."""

STOP_S = 15.0
"""A step that is stopped may take this long to write what it has."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A command, and how it is called in the record."""

    name: str
    command: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Taken:
    """How one run of a step went: `exit_status` is negative where it was stopped."""

    step: str
    gpu: str
    cores: int
    seconds: float
    exit_status: int


def gpu_here() -> str:
    """The model of the first GPU that may be used, opening none; empty without one."""
    return gpu_model(next(iter(visible_devices().values()), ""))


def script(name: str, *arguments: str, suffix: str = "") -> Step:
    """A step that is one of the scripts beside this one."""
    return Step(name=name + suffix, command=[sys.executable, f"benchmarks/{name}.py", *arguments])


def steps(work: Path, parts: int) -> list[Step]:
    """What there is to do, the most telling first; large entries in so many parts."""
    gpu = gpu_here()

    def evaluate(entry: str, folder: str = "evaluations", *options: str, data: str = "data") -> Step:
        path = f"submissions/{entry}.json"
        name = entry if folder == "evaluations" else f"{entry}-{folder}"
        arguments = ["--device", "cuda", "--data", data, "--work", str(work / folder), *options]
        return Step(name=name, command=[*KBL, "evaluate", path, *arguments])

    def in_parts(entry: str) -> list[Step]:
        return [evaluate(entry, f"part-{at}", "--only", ",".join(PROBLEMS[at::parts])) for at in range(parts)]

    def audit(entry: str) -> Step:
        result, found = f"data/results/{gpu}/{entry}.json", str(work / f"audit-{entry}.json")
        return Step(name=f"audit-{entry}", command=[*KBL, "audit", result, "--out", found])

    def redteam(at: int) -> Step:
        share = ("--part", f"{at}/{REDTEAM_PARTS}", "--out", str(work / f"redteam-{at}"))
        return script("redteam", "--device", "cuda", "--layers", "--overhead", *share, suffix=f"-{at}")

    def reality(parts: str, suffix: str = "") -> Step:
        out = ("--work", str(work / "reality"), "--out", str(work / "reality.json"))
        return script("reality", "--parts", f"{parts},report", *out, suffix=suffix)

    def generic(cheat: str, at: int) -> Step:
        share = ("--work", str(work / "generic"), "--cheat", cheat, "--part", str(at))
        return script("generic", *share, suffix=f"-{cheat}-{at}")

    def stages(entry: str) -> Step:
        return script(
            "stages", "--entry", entry, "--out", str(work / f"stages-{entry}.json"), suffix=f"-{entry}"
        )

    def certify(level: int) -> Step:
        arguments = ["--device", "cuda", "--level", str(level)]
        arguments += ["--out", str(work / f"certificates-{level}.json")]
        arguments += ["--twins", str(work / f"sharpness-{level}.json")]
        return Step(name=f"certify-{level}", command=[*KBL, "certify", *arguments])

    return [
        script("host", "--out", str(work / "host.json")),
        *in_parts("pytorch-eager"),
        *in_parts("founders-triton"),
        *in_parts("founders-cuda"),
        evaluate("first-light"),
        *([evaluate("founders-cutile")] if is_installed("cuda.tile") else []),
        *in_parts("pytorch-eager-bf16"),
        *in_parts("founders-triton-bf16"),
        *in_parts("torch-compile-bf16"),
        *in_parts("torch-compile"),
        reality("cold,warm,references,hangs"),
        evaluate("pytorch-eager", "again", data=str(work / "none")),
        *map(redteam, range(REDTEAM_PARTS)),
        reality("upstream", suffix="-upstream"),
        *starmap(generic, product(CHEATS, range(PARTS))),
        script("sampled", "--work", str(work / "sampled")),
        *_certify_again(work),
        script("places", "--sizes", "full", "--device", "cuda", "--out", str(work / "places.json")),
        *map(stages, ("pytorch-eager", "founders-triton")),
        Step(
            name="tests",
            command=[sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider"],
        ),
        script("worked", "--work", str(work / "worked")),
        *_tiles(work),
        script("prompt_examples", "--out", str(work / "prompt_examples.json")),
        audit("founders-cuda"),
        audit("founders-triton"),
        *map(certify, (1, 2, 3)),
        *in_parts("torch-compile-max-autotune"),
        *in_parts("torch-compile-max-autotune-bf16"),
    ]


def _tiles(work: Path) -> list[Step]:
    """Every draft with each of its tiles, in parts that several GPUs can share."""
    made = []
    for entry, at in product(sorted(folder.name for folder in DRAFTS.glob("*/")), range(TILES_PARTS)):
        share = ("--part", f"{at}/{TILES_PARTS}", "--out", str(work / f"tiles-{entry}-{at}.jsonl"))
        made.append(script("tiles", "--entry", entry, *share, suffix=f"-{entry}-{at}"))
    return made


def _certify_again(work: Path) -> list[Step]:
    """What bf16 boards do not rank, where another evaluator said so: the rest of the certificates stays."""
    said = json.loads(path_for(BF16).read_text("utf-8"))
    if said["source"]["evaluator_sha256"] == evaluator_sha256():
        return []
    only = [key for key, facts in said["problems"].items() if not facts["ranked"]]
    out, twins = work / path_for(BF16).name, work / sharpness_of(BF16).name
    if not out.exists():
        left = {key: facts for key, facts in said["problems"].items() if key not in only}
        write_atomically(out, json.dumps({**said, "problems": left}))
        write_atomically(twins, sharpness_of(BF16).read_text("utf-8"))
    arguments = ["--device", "cuda", "--precision", BF16, "--out", str(out), "--twins", str(twins)]
    arguments += ["--only", ",".join(key.replace("_", "/") for key in only)]
    return [Step(name="certify-bf16", command=[*KBL, "certify", *arguments])]


def _is_recorded(report: str) -> bool:
    """Whether the present evaluator alone made the recorded report of the GPU that is here."""
    path = ROOT / "benchmarks" / "results" / f"{report}-{gpu_here()}.json"
    said = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return said.get("evaluators", [said.get("evaluator_sha256")]) == [evaluator_sha256()]


def main() -> int:
    """Do what is left; exit 1 where a step failed or time ran out."""
    options = _options()
    options.work.mkdir(parents=True, exist_ok=True)
    gpus = options.gpus.split(",")
    record = Record(options.work / "steps.jsonl")
    wanted = steps(options.work, options.parts)
    if options.only:
        named = {step.name: step for step in wanted}
        unknown = [name for name in options.only.split(",") if name not in named]
        if unknown:
            sys.exit(f"error: --only names {', '.join(unknown)}; the steps are {', '.join(named)}")
        wanted = [named[name] for name in options.only.split(",")]
    else:
        recorded = {name for report, names in REPORTS.items() if _is_recorded(report) for name in names}
        wanted = [step for step in wanted if step.name not in recorded]
    left = [step for step in wanted if step.name not in record.done()]
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // len(gpus)
    deadline = time.monotonic() + options.limit_s
    turn = threading.Lock()
    with ThreadPoolExecutor(len(gpus)) as pool:
        for at, gpu in enumerate(gpus):
            mine = cores[at * share : (at + 1) * share]
            pool.submit(_work_through, left, turn, Place(gpu, mine, options.work), record, deadline)
    missing = [step.name for step in wanted if step.name not in record.done()]
    print(f"left: {', '.join(missing) or 'nothing'}")
    return 1 if missing else 0


class Record:
    """The runs of steps so far, a line each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def add(self, taken: Taken) -> None:
        """Note a run."""
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(taken)) + "\n")
        print(f"{taken.step:32} GPU {taken.gpu} {taken.seconds:8.1f} s  exit {taken.exit_status}", flush=True)

    def done(self) -> set[str]:
        """Names of the steps that were done whole."""
        lines = self._path.read_text("utf-8").splitlines() if self._path.exists() else []
        return {line["step"] for line in map(json.loads, lines) if line["exit_status"] == 0}


@dataclass(frozen=True)
class Place:
    """A GPU with its processor cores, and the folder for what comes out."""

    gpu: str
    cores: list[int]
    work: Path


def _work_through(
    left: list[Step], turn: threading.Lock, place: Place, record: Record, deadline: float
) -> None:
    while time.monotonic() < deadline:
        with turn:
            if not left:
                return
            step = left.pop(0)
        record.add(_take(step, place, deadline))


def _take(step: Step, place: Place, deadline: float) -> Taken:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": place.gpu, "PYTHONUNBUFFERED": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT / "KernelBench"), str(ROOT), *filter(None, sys.path)]
    )
    started = time.monotonic()
    with (place.work / f"{step.name}.log").open("a", encoding="utf-8") as log:
        process = subprocess.Popen(
            step.command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        os.sched_setaffinity(process.pid, place.cores)
        stopped = not _ends(process, deadline - time.monotonic())
        if stopped:
            os.killpg(process.pid, signal.SIGINT)
            if not _ends(process, STOP_S):
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    seconds = round(time.monotonic() - started, 2)
    status = -signal.SIGINT if stopped else process.returncode
    return Taken(step=step.name, gpu=place.gpu, cores=len(place.cores), seconds=seconds, exit_status=status)


def _ends(process: subprocess.Popen[bytes], within_s: float) -> bool:
    try:
        process.wait(max(within_s, 0.0))
    except subprocess.TimeoutExpired:
        return False
    return True


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "gpu")
    parser.add_argument("--limit-s", type=float, default=1e9)
    parser.add_argument("--gpus", default="0", help="indices separated by commas")
    parser.add_argument(
        "--parts", type=int, default=8, help="into so many an entry is split, for several GPUs"
    )
    parser.add_argument("--only", default="", help="names of steps, in the order to take them")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
