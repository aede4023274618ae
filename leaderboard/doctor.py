"""What this machine can do, what it lacks, and how to get it. Looks only; installs and changes nothing.

What needs torch or untested system calls is asked of a child process, so that its failure is a finding.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email import message_from_string
from enum import StrEnum
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kernel_evaluator.engines.epoch import ARCHIVES, PARTS
from kernel_evaluator.machine.extras import EXTRAS, install, missing
from kernel_evaluator.records.places import PROBLEM_SET

from leaderboard.resources import CPU_DEMO, SCHEMAS, SITE

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WALLS = ("ipc", "mount", "network", "no-new-privileges", "pid", "root", "seccomp", "uid", "uts")
"""The walls around a candidate that `kernel_evaluator.walls.sandbox` can raise and try."""

RESTORE = "git checkout -- KernelBench site submissions, or, outside of a checkout, install it again"

_TABLES = [
    PROBLEM_SET / f"{name}.json"
    for name in (
        "certificates",
        "figures",
        "fingerprints",
        "places",
        "sharpness",
        "sharpness-bf16",
        "sizes",
    )
]
_GIB = 2**30
_TORCH_PROBE = """
import json, torch
facts = {"version": torch.__version__, "cuda": torch.version.cuda, "devices": []}
if torch.cuda.is_available():
    facts["devices"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    from kernel_evaluator.candidate import memory
    try:
        memory.create(2 << 20, "cuda")
        facts["handles"] = ""
    except memory.HandlesRefused as error:
        facts["handles"] = str(error) or "refused"
print(json.dumps(facts))
"""
_WALLS_PROBE = """
import json, os
from kernel_evaluator.walls import sandbox
sandbox.enter_pid_namespace()
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    walls = sandbox.confine(sandbox.Cell(uid=sandbox.FIRST_UID))
    print(json.dumps(walls), flush=True)
    os._exit(0)
"""


class Need(StrEnum):
    """What a finding is needed for."""

    ALL = "everything"
    CPU = "evaluation on the CPU"
    GPU = "evaluation on a GPU"
    TESTS = "the browser tests"
    TRUST = "isolation of untrusted kernels"
    LANGUAGE = "kernels that use it"
    EXTRA = "the verbs that use it"


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """One thing that was looked at; `mend` says how to get what is missing."""

    name: str
    found: str
    ok: bool
    need: Need
    mend: str = ""


def examine() -> Iterator[Diagnosis]:
    """Look at everything, in the order in which it is needed."""
    for probe in PROBES:
        yield from probe()


def abilities(findings: list[Diagnosis]) -> Mapping[str, bool]:
    """Say what the machine can do, from what was found."""
    lacking = {finding.need for finding in findings if not finding.ok}
    base = Need.ALL not in lacking
    return {
        "validate submissions, aggregate results, render the site": base,
        "evaluate on the CPU at reduced sizes (make demo)": base and Need.CPU not in lacking,
        "evaluate on a GPU": base and not lacking & {Need.CPU, Need.GPU},
        "confine untrusted kernels behind every wall": base and Need.TRUST not in lacking,
    }


def _python() -> Iterator[Diagnosis]:
    fine = sys.version_info >= (3, 11)
    found = f"{platform.python_version()} at {sys.executable}"
    yield Diagnosis(name="Python", found=found, ok=fine, need=Need.ALL, mend="apt-get install python3")


def _problems() -> Iterator[Diagnosis]:
    from kernel_evaluator.problems.problem_set import SET_VERSION, ProblemSet
    from kernel_evaluator.records.keys import PROBLEM_COUNTS

    wanted = sum(PROBLEM_COUNTS.values())
    try:
        problems = ProblemSet()
        count, digest = len(list(problems)), problems.sha256()[:12]
    except FileNotFoundError:
        count, digest = 0, "none"
    yield Diagnosis(
        name="problem set",
        found=f"KernelBench {SET_VERSION}, {count} of {wanted} problems, digest {digest}",
        ok=count == wanted,
        need=Need.CPU,
        mend=RESTORE,
    )
    lacking = [str(path) for path in (*_TABLES, SITE, SCHEMAS, CPU_DEMO) if not path.exists()]
    yield Diagnosis(
        name="own files",
        found=f"lacking {', '.join(lacking)}" if lacking else f"complete, in {PROBLEM_SET} and {SITE.parent}",
        ok=not lacking,
        need=Need.ALL,
        mend=RESTORE,
    )


def _torch() -> Iterator[Diagnosis]:
    facts = _torch_facts()
    version = facts.get("version")
    found = f"{version}, built for {facts['cuda'] or 'the CPU'}" if version else facts["error"]
    yield Diagnosis(name="torch", found=found, ok=bool(version), need=Need.CPU, mend=install("evaluate"))
    devices = facts.get("devices", [])
    yield Diagnosis(
        name="CUDA device",
        found=", ".join(devices) or "none that torch can use",
        ok=bool(devices),
        need=Need.GPU,
        mend="evaluate with --engine modal, or on a machine with an NVIDIA GPU and a CUDA build of torch",
    )
    if devices:
        refused = facts.get("handles", facts.get("error", ""))
        yield Diagnosis(
            name="memory handles",
            found=refused or "shared as file descriptors",
            ok=not refused,
            need=Need.TRUST,
            mend="none needed: outputs travel through host memory, more slowly",
        )


def _driver() -> Iterator[Diagnosis]:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    found = _first_line(query) if shutil.which("nvidia-smi") else ""
    mend = "install NVIDIA's driver, 580 or newer, on the host"
    yield Diagnosis(name="NVIDIA driver", found=found or "none", ok=bool(found), need=Need.GPU, mend=mend)


def _nvcc() -> Iterator[Diagnosis]:
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    path = shutil.which("nvcc") or shutil.which("nvcc", path=f"{home}/bin")
    mend = "install the CUDA toolkit of torch's CUDA version, and put nvcc on PATH or set CUDA_HOME"
    yield Diagnosis(name="nvcc", found=path or "none", ok=path is not None, need=Need.GPU, mend=mend)


def _languages() -> Iterator[Diagnosis]:
    """Each part of the board's image but torch, with the version that is here."""
    needs = {"triton": Need.GPU, "ninja": Need.CPU}
    mends = {"triton": "it comes with CUDA builds of torch", "ninja": install("evaluate")}
    for part in (each for each in PARTS if each.distribution != "torch"):
        name = part.distribution
        found = _version(name)
        pinned = part.pin.rpartition("=")[2]
        if found and found.partition("+")[0] != pinned:
            found += f" (the board: {pinned})"
        mend = mends.get(name, f"pip install '{part.pin}'")
        need = needs.get(name, Need.LANGUAGE)
        yield Diagnosis(name=part.name, found=found or "none", ok=bool(found), need=need, mend=mend)
    for archive in ARCHIVES:
        folder = os.environ.get(archive.variable, "")
        there = bool(folder) and Path(folder).is_dir()
        found = f"{_origin(Path(folder))}, in {folder}" if there else "none"
        mend = f"unpack {archive.url}, and set {archive.variable} to its folder {archive.headers}"
        yield Diagnosis(name=archive.name, found=found, ok=there, need=Need.LANGUAGE, mend=mend)


def _compiler() -> Iterator[Diagnosis]:
    path = shutil.which("g++")
    found = _first_line([path, "--version"]) if path else "none"
    mend = "apt-get install g++"
    yield Diagnosis(name="C++ compiler", found=found, ok=path is not None, need=Need.CPU, mend=mend)


def _browser() -> Iterator[Diagnosis]:
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    mend = "apt-get install chromium"
    yield Diagnosis(name="browser", found=path or "none", ok=path is not None, need=Need.TESTS, mend=mend)


def _walls() -> Iterator[Diagnosis]:
    answer = _ask(_WALLS_PROBE)
    standing = answer if isinstance(answer, list) else []
    lacking = [wall for wall in WALLS if wall not in standing]
    found = f"{len(WALLS) - len(lacking)} of {len(WALLS)} stand"
    if lacking:
        found += f"; lacking {', '.join(lacking)}"
    mend = "run as root, in a container with CAP_SYS_ADMIN; until then evaluate only kernels that you trust"
    yield Diagnosis(name="walls", found=found, ok=not lacking, need=Need.TRUST, mend=mend)
    found = "root" if os.geteuid() == 0 else f"uid {os.geteuid()}"
    mend = "run as root, so that kernels run as another user"
    yield Diagnosis(name="user", found=found, ok=os.geteuid() == 0, need=Need.TRUST, mend=mend)


def _extras() -> Iterator[Diagnosis]:
    for extra in EXTRAS:
        lacking = missing(extra)
        found = f"lacks {' and '.join(lacking)}" if lacking else "installed"
        yield Diagnosis(name=f"[{extra}]", found=found, ok=not lacking, need=Need.EXTRA, mend=install(extra))


def _room() -> Iterator[Diagnosis]:
    memory = _free_memory()
    disk = shutil.disk_usage(Path()).free
    for name, free, wanted in (("free memory", memory, 4 * _GIB), ("free disk", disk, 8 * _GIB)):
        mend = f"free at least {wanted // _GIB} GiB"
        found = f"{free / _GIB:.1f} GiB"
        yield Diagnosis(name=name, found=found, ok=free >= wanted, need=Need.CPU, mend=mend)


def _free_memory() -> int:
    """What can be had, kept files included: these make room."""
    lines = Path("/proc/meminfo").read_text("ascii").splitlines() if Path("/proc/meminfo").exists() else []
    told = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return int(told) * 1024 if told else os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


PROBES: tuple[Callable[[], Iterator[Diagnosis]], ...] = (
    _python,
    _problems,
    _torch,
    _driver,
    _nvcc,
    _languages,
    _compiler,
    _browser,
    _walls,
    _room,
    _extras,
)


@cache
def _torch_facts() -> Mapping[str, Any]:
    if find_spec("torch") is None:
        return {"error": "not installed"}
    answer = _ask(_TORCH_PROBE)
    return answer if isinstance(answer, dict) else {"error": "installed, but it does not start", "cuda": None}


def _ask(program: str) -> object:
    """Run a probe in a process of its own; None where it fails."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
        )
        return json.loads(done.stdout)
    except (subprocess.TimeoutExpired, OSError, ValueError):
        return None


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (subprocess.TimeoutExpired, OSError):
        return ""
    return done.stdout.partition("\n")[0].strip() if done.returncode == 0 else ""


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def _origin(folder: Path) -> str:
    """The package in whose source headers came, or the commit of a git checkout."""
    try:
        package = message_from_string((folder.parent / "PKG-INFO").read_text("utf-8"))
    except OSError:
        command = ["git", "-C", str(folder), "rev-parse", "--short=12", "HEAD"]
        return (_first_line(command) if shutil.which("git") else "") or "of unknown origin"
    return f"from {package['Name']} {package['Version']}"
