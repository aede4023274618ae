"""Build the board's image without a GPU, on a base of Debian's packages; run `kbl doctor` and the demo in it.

    python benchmarks/image.py --write

Needs root, Debian's `mmdebstrap` and `buildah`, and 20 GB of disk; BUILDAH_ISOLATION=chroot where runc and
crun may not start a container. The last commit is built, by the `Containerfile` as it lies there. Only
arguments differ: the base, Debian's compiler, and a lock of the same parts for Debian's Python and whatever
torch pip offers. With the CPU build of torch (PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS say where it is) the
libraries are left out that torch's CUDA build brings. What runs in the image has no network. Writes
results/image-cpu.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "KernelBench"), str(ROOT)]

from kernel_evaluator.engines import epoch, image  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "image-cpu.json"
SUITE = "bookworm"
PACKAGES = ("g++", "ca-certificates", "curl", "python3", "python3-dev", "python3-venv")
ARGUMENTS = {"SYSTEM_PACKAGES": " ".join(PACKAGES), "CXX": "g++", "LOCK": "cpu.txt"}
BASE, NAME = "localhost/kernelbench-base", "localhost/kernelbench-cpu"
NEW_PIP = "pip==26.3"
"""Debian's own reports no hashes."""
DEMO = "build/demo/work/CPU-reduced/cpu-demo.json"
TURNS = 3
"""How often the demo is run at most: where the host is busy, kernels wait for another turn."""
TOLD_TO_PIP = ("cert", "extra-index-url", "find-links", "index-url")


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    parser.add_argument("--keep", action="store_true", help=f"leave the image, {NAME}, where it is")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        context = folder / "context"
        _run("git", "clone", "--quiet", f"file://{ROOT}", context)
        try:
            _build(context, _pip_settings(folder))
            report = _try(context)
        finally:
            made = [] if chosen.keep else [NAME, BASE]
            for each in made:
                subprocess.run(["buildah", "rmi", "--force", each], check=False, capture_output=True)
    text = json.dumps(report, indent=1) + "\n"
    sys.stdout.write(text)
    if chosen.write:
        RESULTS.write_text(text, "utf-8")
    return max(report["doctor_status"], report["demo_status"])


def _build(context: Path, mounts: list[str]) -> None:
    _base()
    _lock(context / ARGUMENTS["LOCK"], mounts)
    given = {"BASE": BASE, **ARGUMENTS}
    arguments = [f"--build-arg={name}={value}" for name, value in given.items()]
    _run("buildah", "bud", *mounts, *arguments, "--tag", NAME, "--file", context / "Containerfile", context)


def _try(context: Path) -> dict[str, Any]:
    """Run what has to run in the image, and say what is in it."""
    with _container(NAME) as container:
        version = _inside(container, "cat", "/etc/debian_version").stdout.strip()
        locked = _versions(_inside(container, "cat", "/opt/image.txt").stdout)
        doctor = _inside(container, "kbl", "doctor")
        sys.stderr.write(doctor.stdout)
        for _ in range(TURNS):
            demo = _inside(container, "kbl", "demo")
            sys.stderr.write(demo.stdout)
            if demo.returncode == 0:
                break
        result = json.loads(_inside(container, "cat", DEMO).stdout)
    whole = _versions(image.LOCK.read_text("utf-8"))
    return {
        "schema_version": 1,
        "containerfile_sha256": hashlib.sha256((context / "Containerfile").read_bytes()).hexdigest(),
        "base": f"Debian {version}, {SUITE}, by mmdebstrap",
        "arguments": ARGUMENTS,
        "buildah": _run("buildah", "--version").split()[2],
        "isolation": os.environ.get("BUILDAH_ISOLATION", "oci"),
        "left_out": sorted(set(whole) - set(locked)),
        "other_versions": {
            name: f"{whole[name]} -> {found}"
            for name, found in sorted(locked.items())
            if name in whole and whole[name] != found
        },
        "added": sorted(set(locked) - set(whole)),
        "doctor_status": doctor.returncode,
        "doctor": [line for line in doctor.stdout.splitlines() if line.startswith(("ok", "missing"))],
        "demo_status": demo.returncode,
        "demo": Counter(row["status"] for row in result["rows"]),
        "walls": sorted({" ".join(sorted(each["isolation"])) for each in result["environments"].values()}),
    }


def _base() -> None:
    """Make the base image."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "root.tar"
        include = ",".join(PACKAGES)
        _run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={include}", SUITE, root)
        with _container("scratch") as container:
            _run("buildah", "add", "--quiet", container, root, "/")
            _run("buildah", "commit", "--quiet", container, BASE)


def _lock(path: Path, mounts: list[str]) -> None:
    """Lock the parts and all that they need, for the Python of the base."""
    pins = [part.pin for part in epoch.PARTS]
    ask = "--quiet --dry-run --ignore-installed --report - --only-binary :all: -c /requirements.lock"
    pip = "/tmp/venv/bin/pip install"
    steps = (
        "python3 -m venv /tmp/venv",
        f"{pip} --quiet {NEW_PIP} >&2",
        f"{pip} {ask} {shlex.join(pins)}",
    )
    with _container(BASE) as container:
        constraints = f"--volume={ROOT}/requirements.lock:/requirements.lock:ro"
        said = _run(
            *("buildah", "run", *mounts, constraints, container, "--", "sh", "-c", " && ".join(steps))
        )
    lines = []
    for item in json.loads(said[said.index("{") :])["install"]:
        about, hashes = item["metadata"], item["download_info"]["archive_info"]["hashes"]
        lines.append(f"{about['name'].lower()}=={about['version']} --hash=sha256:{hashes['sha256']}\n")
    path.write_text("".join(sorted(lines)), "utf-8")


def _versions(lock: str) -> dict[str, str]:
    return {re.sub(r"[-_.]+", "-", name): found for name, found in re.findall(r"^(\S+)==(\S+) ", lock, re.M)}


def _pip_settings(folder: Path) -> list[str]:
    """Hand on what PIP_… tells this machine's pip of where packages are; none of it stays in the image."""
    said = {name: os.environ.get(f"PIP_{name.replace('-', '_').upper()}") for name in TOLD_TO_PIP}
    settings = folder / "pip.conf"
    lines = [f"{name} = {value}\n" for name, value in said.items() if value]
    settings.write_text("".join(["[global]\n", *lines]), "utf-8")
    places = [value for value in said.values() if value and Path(value).exists()]
    return [f"--volume={place}:{place}:ro" for place in places] + [f"--volume={settings}:/etc/pip.conf:ro"]


@contextmanager
def _container(source: str) -> Iterator[str]:
    container = _run("buildah", "from", "--pull-never", source).strip()
    try:
        yield container
    finally:
        _run("buildah", "rm", container)


def _inside(container: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the image without a network."""
    start = ("unshare", "--net", "buildah", "run", "--cap-add", "CAP_SYS_ADMIN", container, "--")
    return subprocess.run([*start, *command], stdout=subprocess.PIPE, text=True, check=False)


def _run(*command: str | Path) -> str:
    return subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
