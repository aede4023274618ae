"""The founders' kernels: each submission is exactly its folder of files, and every kernel can be read."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ENTRIES = ("first-light", "founders-cuda", "founders-cutile", "founders-triton", "founders-triton-bf16")
FOLDERS = (
    *(ROOT / "examples" / entry for entry in ENTRIES),
    *(ROOT / "benchmarks/kernels/drafts").glob("*/"),
)
SOURCES = sorted(path for folder in FOLDERS for path in folder.glob("*.py"))


def ids_in_key(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.stem)]


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_submission_is_its_folder_packed(entry: str) -> None:
    folder = ROOT / "examples" / entry
    sources = sorted(folder.glob("*.py"), key=ids_in_key)
    packed = {
        "metadata": json.loads((folder / "metadata.json").read_text(encoding="utf-8")),
        "kernels": {path.stem: path.read_text(encoding="utf-8") for path in sources},
    }
    submission = (ROOT / "submissions" / f"{entry}.json").read_text(encoding="utf-8")
    assert submission == json.dumps(packed, indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_kernel_file_defines_its_model_and_a_kernel_of_its_own(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    model = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ModelNew")
    methods = {node.name for node in model.body if isinstance(node, ast.FunctionDef)}
    assert ast.get_docstring(tree)
    assert "forward" in methods
    assert any(mark in source for mark in ("@triton.jit", "__global__", "@ct.kernel"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_kernel_file_takes_the_arguments_of_its_problem(path: Path) -> None:
    level, problem, _ = ids_in_key(path)
    (reference,) = (ROOT / "KernelBench" / f"level{level}").glob(f"{problem}_*.py")
    assert arguments(path, "ModelNew", "forward") == arguments(reference, "Model", "forward")
    assert arguments(path, "ModelNew", "__init__") == arguments(reference, "Model", "__init__")


def arguments(path: Path, class_name: str, method_name: str) -> list[str]:
    """A method's arguments; those of the class below where it hands on whatever it is given."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    model = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_name)
    methods = {node.name: node for node in model.body if isinstance(node, ast.FunctionDef)}
    method = methods.get(method_name)
    if method and method.args.vararg:
        (below,) = (base.id for base in model.bases if isinstance(base, ast.Name))
        return arguments(path, below, method_name)
    return [argument.arg for argument in method.args.args] if method else ["self"]
