"""The evaluator's digest: what it follows, and what it does not."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kernel_evaluator.records.places import PACKAGE, PROBLEM_SET
from kernel_evaluator.records.version import DECIDE_NOTHING, digest_of, evaluator_sha256

RULE = "timing/stopping.py"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    shutil.copytree(
        PACKAGE, tmp_path / "package", ignore=shutil.ignore_patterns("__pycache__", "problem_set")
    )
    for name in ("figures.json", "sharpness.json", "sharpness-bf16.json"):
        shutil.copy(PROBLEM_SET / name, tmp_path / name)
    return tmp_path / "package"


def digest(package: Path) -> str:
    return digest_of(package, package.parent)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def test_a_copy_elsewhere_has_the_same_digest(package: Path) -> None:
    assert evaluator_sha256() == digest(package)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (RULE, "HALF_WIDTH = 0.005", "HALF_WIDTH = 0.005  # half a per cent"),
        (RULE, "HALF_WIDTH = 0.005", "HALF_WIDTH = (\n    0.005\n)"),
        (RULE, "Timing stops when", "Timing ends when"),
        (RULE, '"""', '"""All new. '),
        ("building/include/torch/types.h", "#pragma once", "// once\n#pragma   once\n\n"),
        ("upstream/files.py", "import", "import math\nimport"),
        ("proofs/certify.py", "import", "import math\nimport"),
    ],
)
def test_words_and_layout_do_not_change_it(package: Path, file: str, old: str, new: str) -> None:
    before = evaluator_sha256()
    edit(package / file, old, new)
    assert before == digest(package)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (RULE, "HALF_WIDTH = 0.005", "HALF_WIDTH = 0.006"),
        (RULE, "HALF_WIDTH = 0.005", "HALF_WIDTH = None"),
        (
            "engines/local.py",
            "def hangs_on_time(row: Row) -> bool:",
            "def hangs_on_time(row: Row) -> bool:\n    return False",
        ),
        ("machine/figures.py", "SLACK = 0.8", "SLACK = 0.9"),
        ("building/include/torch/types.h", "#pragma once", "#pragma once\n#define X"),
        ("stand/batches.py", "<< 20", "<< 21"),
        ("judging/judge.py", "not found.suspicion", "found.suspicion"),
    ],
)
def test_what_may_change_a_verdict_changes_it(package: Path, file: str, old: str, new: str) -> None:
    before = evaluator_sha256()
    edit(package / file, old, new)
    assert before != digest(package)


def test_a_file_moved_into_a_folder_of_its_own_stays_part_of_it(package: Path) -> None:
    (package / "elsewhere").mkdir()
    shutil.move(package / RULE, package / "elsewhere" / "rules.py")
    moved = digest(package)
    edit(package / "elsewhere" / "rules.py", "HALF_WIDTH = 0.005", "HALF_WIDTH = 0.006")
    assert moved != digest(package)


def test_a_file_that_is_new_is_part_of_it(package: Path) -> None:
    before = evaluator_sha256()
    (package / "judging" / "extra.py").write_text("LIMIT = 1\n", "utf-8")
    assert before != digest(package)


def test_the_figures_of_the_floors_are_part_of_it_whatever_their_order(package: Path) -> None:
    before, figures = evaluator_sha256(), package.parent / "figures.json"
    table = json.loads(figures.read_text("utf-8"))
    figures.write_text(json.dumps(dict(reversed(table.items())), indent=7), "utf-8")
    assert before == digest(package)
    table["gpus"]["H100"]["memory_tb_s"] *= 2
    figures.write_text(json.dumps(table), "utf-8")
    assert before != digest(package)


def test_what_is_named_as_deciding_nothing_is_there() -> None:
    assert [] == [name for name in DECIDE_NOTHING if not (PACKAGE / name).exists()]


def test_nothing_that_judges_imports_what_is_named_as_deciding_nothing() -> None:
    names = [name.removesuffix(".py").replace("/", ".") for name in DECIDE_NOTHING]
    program = (
        "import sys, kernel_evaluator.oracle_process, kernel_evaluator.oracle, kernel_evaluator.candidate.runner, "
        "kernel_evaluator.building.child\n"
        f"names = [f'kernel_evaluator.{{name}}' for name in {names!r}]\n"
        "print([each for each in sys.modules if any(f'{each}.'.startswith(f'{name}.') for name in names)])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", ["sharpness.json", "sharpness-bf16.json"])
def test_what_inputs_tell_changes_it_and_where_that_was_found_does_not(package: Path, name: str) -> None:
    path = package.parent / name
    entry = {"problem_sha256": "a", "variant": "affine", "inputs": {"signed": {"passes": {}, "shares": {}}}}

    def told(device: str, found: dict[str, object]) -> str:
        path.write_text(json.dumps({"source": {"device": device}, "problems": {"full": {"1_1": found}}}))
        return digest(package)

    assert told("one", entry) == told("another", entry | {"survey_sha256": "b"})
    blunt = {"signed": {"passes": {"tf32": 0.5}, "shares": {}}}
    assert told("one", entry) != told("one", entry | {"inputs": blunt})
