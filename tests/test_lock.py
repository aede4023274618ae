"""requirements.lock: a version for everything that an extra or a group asks for, and `make lock` covers all of them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

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
    assert [] == [name for name in LOCK if name.startswith(("cuda", "nvidia", "triton"))]
    assert [] == [version for version in LOCK.values() if "+" in version]
