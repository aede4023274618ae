"""Away from a checkout: what a wheel and an sdist bring, and what every verb does there, or says that it lacks."""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from free_ports import free_port
from packaging.requirements import Requirement

from leaderboard.cli import app

ROOT = Path(__file__).resolve().parent.parent
DATA = ("--data", str(ROOT / "data"), "--submissions", str(ROOT / "submissions"))
FEW = ("--data", "few/data", "--submissions", "few/submissions")
"""One entry, and a copy of its submission, below the folder of `bare`: reading all of ours takes long."""
FIRST_LIGHT = str(ROOT / "data/results/H200/first-light.json")
KEY = "level_1_problem_19_sample_0"
SHOWN = ("level_1_problem_23_sample_0", "level_1_problem_25_sample_0")
"""Kernels of the demo: a wrong one and a right one."""

EVALUATE = "needs torch, ninja, setuptools; run: pip install 'kernelbench-leaderboard[evaluate]'"


def build(source: Path, out: Path, *targets: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out), *targets]
    subprocess.run(command, cwd=source, check=True, capture_output=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install --group test")
    out = tmp_path_factory.mktemp("built")
    build(ROOT, out)
    return out


class Environment:
    """A fresh environment with our wheel, in an empty folder."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.home, self.cwd = folder / "environment", folder / "empty"
        self.cwd.mkdir()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.home)], check=True)
        self.python = str(self.home / "bin/python")
        self.packages = Path(self.out("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install", "-q", "--no-deps", str(wheel)]
        subprocess.run(pip, check=True, capture_output=True)

    def out(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.python, *arguments],
            check=False,
            cwd=self.cwd,
            env=self.variables(),
            capture_output=True,
            text=True,
        )
        assert (0, "") == (done.returncode, done.stderr)
        return done.stdout

    def kbl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.home / "bin/kbl"), *arguments]
        return subprocess.run(
            command, check=False, cwd=self.cwd, env=self.variables(), capture_output=True, text=True
        )

    def done(self, *arguments: str) -> str:
        done = self.kbl(*arguments)
        assert 0 == done.returncode, done.stderr
        return done.stdout

    @staticmethod
    def variables() -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture(scope="module")
def full(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """With all packages of the environment that runs the tests: their folder is read, but not its .pth files."""
    environment = Environment(tmp_path_factory.mktemp("full"), next(built.glob("*.whl")))
    (environment.packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    return environment


@pytest.fixture(scope="module")
def bare(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """With what the package asks for itself, and without any extra."""
    environment = Environment(tmp_path_factory.mktemp("bare"), next(built.glob("*.whl")))
    for folder in required_folders():
        link = environment.packages / folder.name
        if not link.exists():
            link.symlink_to(folder)
    for name in ("data/results/H200/first-light", "submissions/first-light", "submissions/again"):
        path = environment.cwd / "few" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / f"{name.replace('again', 'first-light')}.json", path)
    return environment


def required_folders() -> set[Path]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted, seen, folders = list(project["dependencies"]), set(), set()
    while wanted:
        requirement = Requirement(wanted.pop())
        if requirement.name in seen or (
            requirement.marker and not requirement.marker.evaluate({"extra": ""})
        ):
            continue
        seen.add(requirement.name)
        found = metadata.distribution(requirement.name)
        wanted += found.requires or []
        tops = {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}
        folders |= {Path(str(found.locate_file(top))) for top in tops}
    return folders


def test_the_sdist_holds_all_that_the_wheel_is_made_of(built: Path, tmp_path: Path) -> None:
    [sdist], [wheel] = built.glob("*.tar.gz"), built.glob("*.whl")
    subprocess.run(["tar", "xzf", str(sdist), "-C", str(tmp_path)], check=True)
    [source] = tmp_path.iterdir()

    build(source, tmp_path / "again", "-t", "wheel")

    assert filecmp.cmp(wheel, tmp_path / "again" / wheel.name, shallow=False)


def test_the_wheel_holds_what_git_has_of_the_package_and_of_the_files_beside_it(built: Path) -> None:
    tracked = subprocess.run(
        [
            "git",
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "leaderboard",
            "KernelBench",
            "site",
            "submissions/cpu-demo.json",
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    places = {
        "KernelBench/kernel_evaluator/": "kernel_evaluator/",
        "KernelBench/": "kernel_evaluator/problem_set/",
        "site/": "leaderboard/shipped/site/",
        "submissions/": "leaderboard/shipped/submissions/",
        "leaderboard/": "leaderboard/",
    }
    wanted = {
        next(place + path.removeprefix(start) for start, place in places.items() if path.startswith(start))
        for path in tracked
    }

    [wheel] = built.glob("*.whl")
    found = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    assert wanted == found


def test_an_editable_install_finds_each_folder_by_one_name(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install --group test")
    program = f"import hatchling.build as build; build.build_editable({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True)

    [wheel] = tmp_path.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    [lines] = [archive.read(name).decode() for name in archive.namelist() if ".dist-info/" not in name]

    assert [str(ROOT), str(ROOT / "KernelBench")] == lines.split("\n")


@pytest.mark.timeout(600)
def test_the_demos_kernels_go_the_whole_way(full: Environment) -> None:
    where = full.out("-c", "import leaderboard, kernel_evaluator; print(leaderboard, kernel_evaluator)")
    assert 2 == where.count(str(full.packages))
    shipped = json.loads((full.packages / "leaderboard/shipped/submissions/cpu-demo.json").read_bytes())
    entry = {**shipped, "kernels": {key: shipped["kernels"][key] for key in SHOWN}}
    (full.cwd / "submissions").mkdir()
    (full.cwd / "submissions/small.json").write_text(json.dumps(entry), "utf-8")

    assert 270 == len(full.done("problems", "list").splitlines())
    assert "1 of 1 submission fine" in full.done("validate", "submissions")
    assert "2 to judge on CPU-reduced" in full.done("plan", "submissions/small.json", "--gpu", "CPU")
    for _ in range(5):  # it is to be repeated where the host was too busy for a verdict
        ended = full.kbl("evaluate", "submissions/small.json", "--device", "cpu")
        if ended.returncode != 1:
            break
    assert (0, True) == (ended.returncode, "1 mismatch" in ended.stdout), ended.stderr
    judged = json.loads((full.cwd / "build/evaluations/CPU-reduced/small.json").read_text("utf-8"))["rows"]
    wrong, right = (next(row["status"] for row in judged if row["key"] == key) for key in SHOWN)
    assert (wrong, right in ("correct", "quarantined")) == ("mismatch", True)
    assert "2 rows" in full.done("record", "build/evaluations/CPU-reduced/small.json")
    assert "small" in full.done("standings")
    assert "level 1" in full.done("analyze", "data/results/CPU-reduced/small.json")
    full.done("site", "build")
    assert "small" in (full.cwd / "build/site/boards/CPU-reduced.html").read_text("utf-8")
    assert "yes evaluate on the CPU" in full.done("doctor")


@pytest.mark.timeout(600)
def test_a_server_judges_there(full: Environment) -> None:
    port = str(free_port())
    shipped = json.loads((full.packages / "leaderboard/shipped/submissions/cpu-demo.json").read_bytes())
    (full.cwd / "wrong.py").write_text(shipped["kernels"][SHOWN[0]], "utf-8")
    program = (
        "import time, pathlib, httpx\nfrom leaderboard.client import JudgeClient\n"
        f"url = 'http://127.0.0.1:{port}'\n"
        "for _ in range(300):\n"
        "    try:\n        httpx.get(url + '/v1/health', timeout=60); break\n"
        "    except httpx.TransportError: time.sleep(0.1)\n"
        "with JudgeClient(url) as client:\n"
        "    print(client.judge(1, 23, pathlib.Path('wrong.py').read_text()).status)\n"
    )
    command = [str(full.home / "bin/kbl"), "serve", "--device", "cpu", "--port", port]
    with subprocess.Popen(command, cwd=full.cwd, env=full.variables()) as server:
        try:
            assert "mismatch\n" == full.out("-c", program)
        finally:
            server.terminate()


def test_scores_are_the_same_to_the_last_digit(full: Environment) -> None:
    here = subprocess.run(
        [sys.executable, "-m", "leaderboard", "standings", "--format", "json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert json.loads(here)
    assert here == full.done("standings", *DATA, "--format", "json")


def test_it_is_the_same_evaluator_there(full: Environment) -> None:
    here = subprocess.run(
        [sys.executable, "-m", "leaderboard", "--version"], capture_output=True, text=True, check=True
    ).stdout

    assert here.startswith("kbl ")
    assert here == full.done("--version")


def test_a_distribution_named_like_kernelbenchs_package_lives_beside(full: Environment) -> None:
    (full.packages / "kernelbench").mkdir()
    (full.packages / "kernelbench/__init__.py").write_text("THEIRS = True\n", "utf-8")

    program = "import kernelbench, kernel_evaluator; print(kernelbench.THEIRS, len(list(kernel_evaluator.ProblemSet())))"

    assert "True 270\n" == full.out("-c", program)


def test_inspect_finds_the_task_by_the_name_of_the_entry_point(full: Environment) -> None:
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed: pip install '.[inspect]'")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    [name] = project["entry-points"]["inspect_ai"]
    program = (
        "from inspect_ai._eval.loader import load_tasks\n"
        f"print([task.name for task in load_tasks(['{name}/kernelbench'], {{'device': 'cpu'}})])"
    )

    assert f"['{name}/kernelbench']\n" == full.out("-c", program)
    assert f"inspect eval {name}/kernelbench " in (ROOT / "docs/tools.md").read_text("utf-8")


VERBS = [
    # verb, arguments, exit status, what it says
    ("validate", (f"{ROOT}/submissions/cpu-demo.json",), 0, "1 of 1 submission fine"),
    ("doctor", (), 1, "pip install 'kernelbench-leaderboard[generate]'"),
    ("demo", (), 2, f"kbl demo {EVALUATE}"),
    ("plan", (f"{ROOT}/submissions/cpu-demo.json", "--gpu", "CPU"), 0, "15 to judge on CPU-reduced"),
    ("build", (f"{ROOT}/submissions/cpu-demo.json",), 2, f"kbl build {EVALUATE}"),
    ("evaluate", (f"{ROOT}/submissions/cpu-demo.json",), 2, f"the engine local {EVALUATE}"),
    ("evaluate", ("x.json", "--engine", "modal"), 2, "needs modal; run: pip install"),
    ("record", ("none.json",), 2, "none.json"),
    ("audit", (FIRST_LIGHT,), 2, f"kbl audit {EVALUATE}"),
    ("replay", (FIRST_LIGHT, KEY), 2, f"kbl replay {EVALUATE}"),
    ("certify", (), 2, f"kbl certify {EVALUATE}"),
    ("copies", FEW[2:], 1, "first-light"),
    ("generate", ("run", "--model", "m", "--only", "1/19"), 2, "needs httpx; run: pip install"),
    ("unpack", (f"{ROOT}/submissions/cpu-demo.json",), 0, "runs/cpu-demo_level1"),
    ("pack", ("e.json", "runs/cpu-demo_level3", "--display-name", "E"), 0, "1 kernel written"),
    ("analyze", (FIRST_LIGHT,), 0, "level 1"),
    ("analyze", (FIRST_LIGHT, "--plot", "x.svg"), 2, "drawing needs matplotlib; run: pip install"),
    ("compare", (FIRST_LIGHT, FIRST_LIGHT), 0, "B faster than A"),
    ("serve", (), 2, "kbl serve needs fastapi, httpx, prometheus_client, uvicorn; run: pip install"),
    ("standings", DATA, 0, "first-light"),
    ("site", ("build", *FEW), 0, "files"),
    ("export", ("board", "--out", "release", *DATA), 2, "kbl export needs pyarrow; run: pip install"),
    ("problems", ("show", "1/19"), 0, "class Model"),
    ("problems", ("check",), 2, f"kbl problems check {EVALUATE}"),
    ("baseline", ("show", f"{ROOT}/baselines/H200.json"), 0, "compiled ms"),
    ("baseline", ("measure", "--device", "cpu"), 2, f"the engine local {EVALUATE}"),
    ("board", ("due",), 2, ".github/evaluation.toml"),
    ("ci", ("check",), 2, "kbl ci needs github; run: pip install"),
]


@pytest.mark.parametrize(
    ("verb", "arguments", "status", "said"), VERBS, ids=[f"{v} {' '.join(a[:1])}" for v, a, *_ in VERBS]
)
def test_without_extras_every_verb_works_or_says_in_a_line_what_it_lacks(
    bare: Environment, verb: str, arguments: tuple[str, ...], status: int, said: str
) -> None:
    done = bare.kbl(verb, *arguments)

    assert status == done.returncode, done.stderr
    assert said in done.stdout + done.stderr
    if 2 == status:
        assert ("", 1) == (done.stdout, done.stderr.count("\n"))


def test_every_verb_was_tried() -> None:
    from typer.main import get_command

    assert set(get_command(app).commands) == {verb for verb, *_ in VERBS}  # type: ignore[attr-defined]


def test_level_4_without_transformers_says_so_before_anything_is_judged(full: Environment) -> None:
    if metadata.packages_distributions().get("transformers"):
        pytest.skip("transformers is installed here")
    entry = {
        "metadata": {"display_name": "x"},
        "kernels": {"level_4_problem_1_sample_0": "class ModelNew:\n    pass\n"},
    }
    (full.cwd / "four.json").write_text(json.dumps(entry), "utf-8")

    done = full.kbl("evaluate", "four.json", "--device", "cpu")

    assert (2, "error: level 4 needs transformers; run: pip install 'kernelbench-leaderboard[level4]'\n") == (
        done.returncode,
        done.stderr,
    )


@pytest.mark.parametrize("command", [("standings", *DATA), ("site", "build", *DATA)])
def test_without_the_certificates_nothing_is_ranked(bare: Environment, command: tuple[str, ...]) -> None:
    table = bare.packages / "kernel_evaluator/problem_set/certificates.json"
    hidden = table.rename(table.with_suffix(".hidden"))
    try:
        done = bare.kbl(*command)
        doctor = bare.kbl("doctor")
    finally:
        hidden.rename(table)

    assert (2, "") == (done.returncode, done.stdout)
    assert f"{table} is missing" in done.stderr
    assert f"lacking {table}" in doctor.stdout
    assert "no  validate submissions, aggregate results" in doctor.stdout
