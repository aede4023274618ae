"""Cheats that a page of code tries on every problem: what do they gain over a copy of the reference?

    python benchmarks/generic.py --device cuda --work build/generic --write

`half` computes in half precision where all inputs lie between 0 and 1, `earlier` gives an earlier output
again unless an input is beyond 50, `ahead` computes most calls of a batch while their inputs are written,
before its clock begins. What is judged is kept in WORK, and not judged again. A cheat gains on a
ranked problem where its interval lies more than 3 % above that of the copy in the recorded entry
`pytorch-eager`; on a CPU, which is shared and has no such entry, where it lies above 2.5. What `half` gains
where no inputs tell half precision from the reference is listed apart: who uses it always is right there too.
Exit status: 1 where one gains, or some are not judged.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "KernelBench"), str(ROOT)]

from kernel_evaluator.problems.deciding import SHARPNESS  # noqa: E402
from kernel_evaluator.problems.problem_set import ProblemSet  # noqa: E402
from kernel_evaluator.records.keys import RANKED_LEVELS, KernelKey  # noqa: E402
from kernel_evaluator.records.rows import ResultFile  # noqa: E402
from redteam_report import CPU_MARGIN  # noqa: E402

from leaderboard.files.store import read_result, recorded_path, write_atomically  # noqa: E402
from leaderboard.stages.boards import read_certificates  # noqa: E402
from leaderboard.stages.parts import joined  # noqa: E402

MARGIN = 1.03
"""A cheat gains where its interval lies this far above its honest twin's."""

PARTS = 4
"""Into so many parts a cheat's problems fall, for several GPUs."""

HALF_TWINS = ("fp16", "half arithmetic")
"""Inputs and weights rounded to half precision; sums in it as well."""

_TENSORS = """

def _tensors(inputs):
    return [x for x in inputs if isinstance(x, torch.Tensor) and x.is_floating_point()]

"""
CHEATS = {
    "half": _TENSORS
    + """
def _float(output):
    return output.float() if isinstance(output, torch.Tensor) else type(output)(map(_float, output))


class ModelNew(Own):
    def forward(self, *inputs):
        if not all(bool(((x >= 0) & (x <= 1)).all()) for x in _tensors(inputs)):
            return super().forward(*inputs)
        device = _tensors(inputs)[0].device.type
        with torch.autocast(device, torch.float16 if device == "cuda" else torch.bfloat16):
            return _float(super().forward(*inputs))
""",
    "earlier": _TENSORS
    + """
class ModelNew(Own):
    last = None

    def forward(self, *inputs):
        if self.last is not None and all(float(x.abs().max()) < 50 for x in _tensors(inputs)):
            return self.last
        self.last = super().forward(*inputs)
        return self.last
""",
    "ahead": _TENSORS
    + """
import functools
import sys
import time


def _serving():
    frame = sys._getframe()
    while "methods" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["self"], frame.f_locals["methods"]


def _batch(self, core=None, room=None):
    self.outputs = []
    ends = [_tensors(inputs)[-1] for inputs in self.sets]
    bits = lambda: torch.stack([end[(-1,) * end.dim()].float() for end in ends]).view(torch.int32).tolist()
    before, known, arrived = bits(), {}, []
    has_go = lambda: self.channel._poll.poll(0)
    self.channel.answer(_reply(op=_ops.READY))
    with torch.no_grad():
        while not has_go():
            arrived += [at for at, now in enumerate(bits()) if now != before[at] and at not in arrived]
            for at in arrived[:-1]:  # what came before the last is whole
                if at not in known and len(known) < 0.85 * len(ends) and not has_go():
                    known[at] = self.model(*self.sets[at])
        _, facts, _ = self.channel.listen()
        torch.manual_seed(facts["seed"])
        started = time.perf_counter()
        self.outputs = [known[at] if at in known else self.model(*self.sets[at]) for at in facts["order"]]
        if self.device == "cuda":
            torch.cuda.synchronize()
    return _reply(op=_ops.DONE, number=(time.perf_counter() - started) * 1e3, count=len(self.outputs))


_runner, _methods = _serving()
_ops = type(next(iter(_methods)))
_reply = sys.modules["kernel_evaluator.candidate.frames"].Reply
_methods[_ops.BATCH] = functools.partial(_batch, _runner)


class ModelNew(Own):
    pass
""",
}


def problems(*parts: int) -> dict[str, str]:
    """The ranked problems of some parts: keys of kernels, and sources whose model is called `Own`."""
    ranked = [each for each in ProblemSet() if each.level in RANKED_LEVELS]
    return {
        str(KernelKey(each.level, each.problem_id)): re.sub(r"\bModel\b", "Own", each.source)
        for part in parts
        for each in ranked[part::PARTS]
    }


def write_entry(name: str, path: Path) -> None:
    """Write the entry that tries a cheat on every problem."""
    kernels = {key: source + CHEATS[name] for key, source in problems(*range(PARTS)).items()}
    write_atomically(path, json.dumps({"metadata": {"display_name": name}, "kernels": kernels}))


def judge(name: str, device: str, work: Path, part: int) -> None:
    """Judge what is not judged yet of one part."""
    entry = work / f"{name}.json"
    write_entry(name, entry)
    keys = [KernelKey.parse(key) for key in problems(part)]
    files = (work / f"part-{part}").glob(f"*/{name}.json")
    if set(keys) <= {row.key for path in files for row in read_result(path).rows}:
        return
    only = ",".join(f"{key.level}/{key.problem_id}" for key in keys)
    command = [sys.executable, "-m", "leaderboard", "evaluate", str(entry), "--device", device]
    command += ["--only", only, "--work", str(work / f"part-{part}"), "--data", str(work / "none")]
    subprocess.run(command, check=False)


def judged(name: str, work: Path) -> ResultFile:
    """What is judged in all parts."""
    parts = {path: read_result(path) for path in sorted(work.glob(f"part-*/*/{name}.json"))}
    ((whole, _),) = joined(parts, work / "none")
    return whole


def is_half_right(key: KernelKey) -> bool:
    """Whether no deciding inputs tell half precision's rounding from a problem's reference, at full size."""
    known = json.loads(SHARPNESS.read_text("utf-8"))["problems"]["full"]
    distances = known[f"{key.level}_{key.problem_id}"]["twins"]
    return min(distances[twin] for twin in HALF_TWINS) < 1


def report(cheat: str, result: ResultFile) -> dict[str, Any]:
    """Count the verdicts, and say where the cheat gains and by how much; on a GPU beside recorded copies."""
    twins = {}
    if result.gpu != "CPU":
        copies = read_result(recorded_path(ROOT / "data", result.board, "pytorch-eager"))
        twins = {row.key: row.speedup_ci95[1] for row in copies.rows if row.is_correct and row.speedup_ci95}
    unranked = read_certificates()[result.precision]
    gains = {
        str(row.key): row.speedup_ci95[0] / (twins[row.key] if twins else 1.0)
        for row in result.rows
        if row.is_correct and row.speedup_ci95 and f"{row.key.level}_{row.key.problem_id}" not in unranked
    }
    margin = MARGIN if twins else CPU_MARGIN
    gaining = {key: round(gain, 3) for key, gain in gains.items() if gain > margin}
    alike = {key for key in gaining if cheat == "half" and is_half_right(KernelKey.parse(key))}
    return {
        "judged": len(result.rows),
        "statuses": Counter(row.status.value for row in result.rows),
        "correct_on_ranked": len(gains),
        "most": max(gains.values(), default=None),
        "gains": {key: gain for key, gain in gaining.items() if key not in alike},
        "gains_where_half_precision_is_right": {key: gaining[key] for key in sorted(alike)},
        "evaluators": sorted({row.evaluator_sha256 for row in result.rows}),
    }


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "generic")
    parser.add_argument("--cheat", choices=tuple(CHEATS), help="this one alone; nothing is written")
    parser.add_argument("--part", type=int, choices=range(PARTS), help="this part alone; nothing is written")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/generic-<gpu>.json")
    chosen = parser.parse_args()
    names = [name for name in CHEATS if chosen.cheat in (None, name)]
    parts = range(PARTS) if chosen.part is None else [chosen.part]
    for name, part in product(names, parts):
        judge(name, chosen.device, chosen.work, part)
    results = {name: judged(name, chosen.work) for name in names}
    found = {name: report(name, result) for name, result in results.items()}
    for name, said in found.items():
        print(name, json.dumps(said))
    if chosen.write and not chosen.cheat and chosen.part is None:
        gpu = next(iter(results.values())).gpu
        path = ROOT / "benchmarks" / "results" / f"generic-{gpu}.json"
        write_atomically(path, json.dumps({"schema_version": 1, "cheats": found}, indent=1) + "\n")
        print("written", path)
    asked = problems(*parts).keys()
    is_left = any(asked - {str(row.key) for row in result.rows} for result in results.values())
    return int(is_left or any(said["gains"] for said in found.values()))


if __name__ == "__main__":
    sys.exit(main())
