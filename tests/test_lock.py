"""requirements.lock: a version for everything that an extra or a group asks for, and `make lock` covers all of them.

.github/locks: what jobs of workflows install, by hash.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCK = {
    canonicalize_name(name): version
    for name, version in re.findall(
        r"^([\w.-]+)==(\S+)$", (ROOT / "requirements.lock").read_text("utf-8"), re.M
    )
}


def wanted() -> dict[str, list[str]]:
    """What is asked for: the package itself, each extra, each group."""
    project = PROJECT["project"]
    return {"": project["dependencies"], **project["optional-dependencies"], **PROJECT["dependency-groups"]}


def test_every_requirement_of_every_extra_and_group_has_a_version_that_it_allows() -> None:
    wrong = [
        f"{where or 'the package'}: {line}, locked: {LOCK.get(canonicalize_name(Requirement(line).name))}"
        for where, lines in wanted().items()
        for line in lines
        if LOCK.get(canonicalize_name(Requirement(line).name)) not in Requirement(line).specifier
    ]

    assert [] == wrong, "to mend it: make lock"


def test_make_lock_takes_every_extra() -> None:
    (extras,) = re.findall(r"^EXTRAS := (\S+)$", (ROOT / "Makefile").read_text("utf-8"), re.M)

    assert sorted(PROJECT["project"]["optional-dependencies"]) == extras.split(",")


def test_the_lock_leaves_cuda_to_torch_and_names_no_local_build() -> None:
    assert [] == [name for name in LOCK if name.startswith(("cuda", "nvidia"))]
    assert [] == [version for version in LOCK.values() if "+" in version]


JOBS_LOCKS = {
    path.stem: path.read_text("utf-8").splitlines() for path in (ROOT / ".github/locks").glob("*.txt")
}
EXTRAS = {"site": [], "export": ["export"], "github": ["github"], "modal": ["modal"]}
"""The list of each kind of job, and the extras that it holds besides the package's own needs."""


def test_each_job_that_runs_kbl_installs_one_of_the_lists() -> None:
    workflows = [
        yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / ".github/workflows").glob("*.yml")
    ]
    jobs = [job for workflow in workflows for job in workflow["jobs"].values()]
    commands = [[step.get("run", "") for step in job.get("steps", [])] for job in jobs]
    lists = {name for name in JOBS_LOCKS for lines in commands if f"scripts/install.sh {name}" in lines}

    assert EXTRAS.keys() == JOBS_LOCKS.keys() == lists
    for lines in commands:
        if any("kbl" in line for line in lines):
            assert any(line.startswith("scripts/install.sh ") for line in lines)


@pytest.mark.parametrize("name", sorted(EXTRAS))
def test_a_job_installs_hashed_wheels_of_the_locked_versions_alone(name: str) -> None:
    found = {}
    for line in JOBS_LOCKS[name]:
        package, version = re.fullmatch(r"([\w.-]+)==(\S+) --hash=sha256:[0-9a-f]{64}", line).groups()
        found[canonicalize_name(package)] = version
    asked = [line for extra in ["", *EXTRAS[name]] for line in wanted()[extra]]

    assert {package: LOCK.get(package) for package in found} == found, "to mend it: make lock"
    assert {canonicalize_name(Requirement(line).name) for line in asked} <= found.keys()


def test_the_makefile_binds_pip_and_what_builds_the_package() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    builders = {"hatchling", "editables", "pathspec", "pluggy", "packaging", "trove-classifiers"}

    assert re.search(r"install \"pip==\d+\.\d+(\.\d+)?\"", makefile)
    for line in re.findall(r"^.*--editable .*$", makefile, re.M):
        assert "$(LOCKED)" in line
    assert "--build-constraint requirements.lock" in makefile
    assert builders <= LOCK.keys()


def test_a_job_builds_nothing() -> None:
    script = (ROOT / "scripts/install.sh").read_text("utf-8")
    (install,) = re.findall(r"pip install (?:.|\\\n)*?\.txt", script)

    assert {"--require-hashes", "--no-deps", "--only-binary"} <= set(install.split())
    assert not {"--editable", "-e", "."} & set(install.split())
