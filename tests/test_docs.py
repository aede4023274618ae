"""What the documents claim: constants, links, commands and verbs are those of the code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from leaderboard.cli import app
from leaderboard.render.model import Notice

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def written(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    if all(isinstance(item, int | float) for item in value.values()):
        return ", ".join(f"{name} {item}" for name, item in value.items())
    return ", ".join(value)


def true_row(match: re.Match[str]) -> str:
    module, *path = match[1].split(".")
    value = reduce(getattr, path, import_module(f"kernelbench.{module}"))
    return f"| `{match[1]}` | {written(value)} |"


def test_the_standings_in_the_readme_are_those_of_the_data() -> None:
    path = ROOT / "README.md"
    before, _, rest = path.read_text("utf-8").partition("<!-- standings -->\n")
    shown, _, after = rest.partition("<!-- /standings -->")
    command = [sys.executable, "-m", "leaderboard", "standings", "--gpu", "H200", "--format", "markdown"]
    table = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    true = "\n" + "\n".join(line for line in table.splitlines() if line.startswith("|")) + "\n\n"
    if "BLESS" in os.environ:
        path.write_text(f"{before}<!-- standings -->\n{true}<!-- /standings -->{after}", "utf-8")
        shown = true
    assert true == shown, "to renew it: make bless"


def test_the_constants_of_the_method_are_those_of_the_code() -> None:
    path = ROOT / "docs/method.md"
    body, heading, table = path.read_text("utf-8").partition("## Constants")

    true_table = re.sub(r"^\| `([\w.]+)` \| .+ \|$", true_row, table, flags=re.MULTILINE)
    if "BLESS" in os.environ:
        path.write_text(body + heading + true_table, "utf-8")

    assert true_table == path.read_text("utf-8").partition("## Constants")[2], "to renew it: make bless"
    assert "| `measure.HALF_WIDTH` |" in table


def test_every_constant_that_the_method_speaks_of_is_in_its_table() -> None:
    body, _, table = (ROOT / "docs/method.md").read_text("utf-8").partition("## Constants")

    assert all(f"{name}`" in table for name in re.findall(r"`([A-Z][A-Z_]+)`", body))


def test_the_log_that_maintainers_are_shown_can_be_read() -> None:
    example = re.search(r"```json\n(.+?)```", (ROOT / "docs/maintainers.md").read_text("utf-8"), re.DOTALL)
    assert example and [Notice(**notice) for notice in json.loads(example[1])]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_inside_the_repository_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text("utf-8"))

    assert [] == [link for link in links if "://" not in link and not (document.parent / link).exists()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_and_verbs_in_documents_exist(document: Path) -> None:
    text = document.read_text("utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    commands = get_command(app).commands  # type: ignore[attr-defined]

    assert set() == set(re.findall(r"\bkbl ([a-z]+)", text)) - set(commands)
    verbs = re.findall(r"(?:`|^    )make ([a-z-]+)", text, re.MULTILINE)
    assert set() == {verb for verb in verbs if f"\n{verb}:" not in makefile}


def options_of(words: list[str]) -> set[str]:
    """The options of the command that a line of words begins with."""
    command = get_command(app)
    for word in words:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]  # type: ignore[attr-defined]
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_options_of_commands_in_documents_exist(document: Path) -> None:
    """In blocks and between backticks: `kbl COMMAND … --option`."""
    text = document.read_text("utf-8")
    lines = re.findall(r"(?:^    |`)(?:\S*=\S* )*(?:\.venv/bin/)?kbl ([a-z][^`\n#]*)", text, re.MULTILINE)
    wrong = [
        (line, option)
        for line in lines
        for option in re.findall(r"(?<=\s)--[a-z][\w-]*", line)
        if option != "--help" and option not in options_of(line.split())
    ]

    assert [] == wrong
