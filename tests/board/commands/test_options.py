"""What options say where they cannot mean what was asked, and what a verb names as the next."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel_evaluator.problems.problem_set import ProblemSet
from typer.main import get_command
from typer.testing import CliRunner

from leaderboard.cli import app
from leaderboard.files.store import locked_folder
from leaderboard.stages.engines import made_for_gpus

IN_PLACE = """
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x.clamp_(-1, 1)
"""


def entry(folder: Path, problem: int, source: str) -> Path:
    kernels = {f"level_1_problem_{problem}_sample_0": source}
    path = folder / "mine.json"
    path.write_text(json.dumps({"metadata": {"display_name": "x"}, "kernels": kernels}))
    return path


@pytest.mark.parametrize(
    "words",
    [
        "standings --data",
        "evaluate FILE --device cpu --data",
        "evaluate FILE --device cpu --work",
        "plan FILE --data",
        "plan FILE --work",
        "site build --out out --data",
        "export board --out out --data",
    ],
)
def test_a_file_where_a_folder_is_asked_for_is_named(tmp_path: Path, words: str) -> None:
    path = entry(tmp_path, 19, "x = ")
    command = [str(path) if word == "FILE" else word for word in words.split()]
    done = CliRunner().invoke(app, [*command, str(path)])
    assert (2, f"error: {command[-1]} must be a folder, {path} is a file\n") == (done.exit_code, done.output)


def test_a_plan_for_no_board_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["plan", str(entry(tmp_path, 19, "x = ")), "--gpu", ""])
    assert (2, True) == (done.exit_code, "--gpu must be a board or a GPU model" in done.output), done.output


@pytest.mark.parametrize(
    "words", ["standings", "site build --out out --problems set", "export board --out out"]
)
def test_a_folder_that_holds_no_results_is_not_taken_for_a_board_without_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("runs/one", "empty", "later/spending", "set/level1"):
        Path(folder).mkdir(parents=True)
    Path("set/level1/19_ReLU.py").write_text(ProblemSet().load(1, 19).source)

    def ended(*options: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*words.split(), *options])
        return done.exit_code, done.output

    wrong = "error: --data must be the folder of recorded results, and "
    mend = "name another, or run this in a checkout of the board\n"
    assert (2, f"{wrong}there is no folder dat; {mend}") == ended("--data", "dat")
    assert (2, f"{wrong}there is no folder data; {mend}") == ended()
    code, said = ended("--data", "runs")
    assert (2, True) == (code, said.startswith(f"{wrong}runs has none of audits, history, results"))
    assert not Path("out").exists() and not Path(".out-read").exists()
    for folder in ("empty", "later"):
        assert 2 != ended("--data", folder)[0]
    Path("submissions").mkdir()
    assert 2 != ended()[0]  # a checkout before its first result


def test_an_output_in_its_inputs_memory_is_explained_and_the_next_verb_works(tmp_path: Path) -> None:
    path = entry(tmp_path, 32, IN_PLACE)
    folders = ["--data", str(tmp_path / "data"), "--work", str(tmp_path / "work")]
    options = ["--device", "cpu", "--timing-method", "do_bench"]
    judged = CliRunner().invoke(app, ["evaluate", str(path), *options, *folders])
    assert "in all 1 mismatch" in judged.output
    assert "--timing-method do_bench decides nothing without --profile compat" in judged.output

    work = tmp_path / "work/CPU-reduced/mine.json"
    named = ["replay", str(work), "level_1_problem_32_sample_0", "--submission", str(path)]
    shown = CliRunner().invoke(app, [*named, "--device", "cpu"])
    assert "outputs in the memory of an input must be 0, got 1: return a new tensor" in shown.output

    (following,) = (line for line in judged.output.splitlines() if line.startswith("next: kbl "))
    recorded = CliRunner().invoke(app, [*following.split()[2:], "--data", str(tmp_path / "data")])
    assert (0, True) == (recorded.exit_code, "recorded: " in recorded.output), recorded.output


def options_with_a_float(verb: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, inner in getattr(verb, "commands", {}).items():
        yield from options_with_a_float(inner, (*path, name))
    for parameter in verb.params:
        if "float" in str(parameter.type_descriptor.annotation):
            yield path, parameter.opts[0]


FLOATS = list(options_with_a_float(get_command(app)))


@pytest.mark.parametrize(("verb", "option"), FLOATS, ids=lambda value: "-".join(value).lstrip("-"))
def test_no_option_takes_what_is_no_finite_number(verb: tuple[str, ...], option: str) -> None:
    for value in ("nan", "inf", "-inf"):
        done = CliRunner().invoke(app, [*verb, f"{option}={value}"], env={"COLUMNS": "200"})
        assert (2, True) == (done.exit_code, f"Invalid value for '{option}'" in done.output), done.output


def test_options_with_floats_are_found() -> None:
    assert {(("evaluate",), "--timeout"), (("pack",), "--cost-usd")} < set(FLOATS)


def test_a_baseline_stays_in_its_folder(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["baseline", "import", "--source", "x", "--gpu", "../out", "--eager", "x.json"]
    )
    assert (2, True) == (done.exit_code, "--gpu must be a name such as H100" in done.output)


def test_two_builds_of_one_site_do_not_write_at_once(tmp_path: Path) -> None:
    memory = tmp_path / ".site-read"
    memory.mkdir()
    options = ["--data", str(tmp_path), "--submissions", str(tmp_path), "--out", str(tmp_path / "site")]
    with locked_folder(memory):
        done = CliRunner().invoke(app, ["site", "build", *options])
    assert (2, True) == (done.exit_code, "another process is writing it; wait for it" in done.output)


def test_a_folder_among_the_results_is_named(tmp_path: Path) -> None:
    (tmp_path / "results/H100/dir.json").mkdir(parents=True)
    done = CliRunner().invoke(app, ["standings", "--data", str(tmp_path)])
    assert (2, True) == (done.exit_code, "dir.json: it is a folder" in done.output), done.output


@pytest.mark.parametrize(
    "words", ["serve --max-queued=0", "serve --max-kept=0", "generate --max-tokens=-1", "compare --top=-1"]
)
def test_a_number_of_things_is_no_smaller_than_makes_sense(words: str) -> None:
    done = CliRunner().invoke(app, words.split(), env={"COLUMNS": "200"})
    option = words.split()[1].partition("=")[0]
    assert (2, True) == (done.exit_code, f"Invalid value for '{option}'" in done.output), done.output


def test_the_address_of_the_site_is_one_that_links_can_be_made_of() -> None:
    words = ["site", "build", "--base-url", "me.github.io/fork"]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert (2, True) == (done.exit_code, "must begin with https:// or http://" in done.output), done.output


INLINE = "from torch.utils.cpp_extension import load_inline\nload_inline('a', ['int f();'], {more})"


def test_kernels_that_no_cpu_can_run_are_counted_before_they_fail(tmp_path: Path) -> None:
    triton, cuda, cpp = "import triton", INLINE.format(more="['__global__ f']"), INLINE.format(more="[]")
    counted = made_for_gpus([triton, cuda, triton, cpp, "import torch  # no __global__ here"])
    assert {"triton": 2, "load_inline": 1} == counted
    path = entry(tmp_path, 19, triton)
    folders = ["--data", str(tmp_path / "data"), "--work", str(tmp_path / "work")]
    done = CliRunner().invoke(app, ["evaluate", str(path), "--device", "cpu", *folders])
    assert "on a CPU these kernels fail, since they are made for a GPU: 1 triton\n" in done.output
