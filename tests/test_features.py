"""docs/features.md: every verb, script and option in it exists, and what it marks as run runs."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import shlex
import shutil
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from commandline import kbl
from kernel_evaluator.problems.problem_set import ProblemSet
from typer.main import get_command

from leaderboard.cli import app
from leaderboard.seed_scripts import benchmark_eval_analysis

ROOT = Path(__file__).resolve().parent.parent
VERBS = get_command(app)
PAGE = (ROOT / "docs/features.md").read_text("utf-8")
ROWS = re.findall(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| (\w+) \| (.+) \|$", PAGE, re.MULTILINE)
CODE = [code for *_, served in ROWS for code in re.findall(r"`([^`]+)`", served)]
RUN = [code for *_, served in ROWS for code in re.findall(r"`(kbl [^`]+)` \+", served)]


def test_every_row_is_there_and_counted() -> None:
    assert [str(number) for number in range(1, 102)] == [number for number, *_ in ROWS]
    found = Counter(state for *_, state, _ in ROWS)
    said = re.search(r"Of 101 rows (\d+) say yes, (\d+) other, (\d+) unseen and (\d+) no\.", PAGE)
    assert said is not None
    assert {"yes", "other", "unseen", "no"} == set(found)
    assert tuple(str(found[state]) for state in ("yes", "other", "unseen", "no")) == said.groups()
    assert f"So {found['yes'] + found['other']} work." in PAGE


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """Give the verb's command and what follows its name."""
    command: Any = VERBS
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    return command, words


@pytest.mark.parametrize("code", [code for code in CODE if code.startswith("kbl ")])
def test_a_verb_and_its_options_exist(code: str) -> None:
    command, rest = command_of(shlex.split(code)[1:])
    known = {
        option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    }

    assert not hasattr(command, "commands") or set(rest) <= known, f"{code}: there is no such verb"
    assert [] == [word for word in rest if word.startswith("--") and word not in known]


@pytest.mark.parametrize("code", [code for code in CODE if code.startswith("scripts/")])
def test_a_script_and_its_options_exist(code: str) -> None:
    script, *options = code.split()
    assert (ROOT / script).is_file()
    kind = import_module(f"leaderboard.seed_scripts.{Path(script).stem}").Options
    assert {option.partition("=")[0] for option in options} <= {
        each.name for each in dataclasses.fields(kind)
    }


@pytest.mark.parametrize("code", [code for code in CODE if code.startswith("-T ")])
def test_an_option_of_the_inspect_task_exists(code: str) -> None:
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed: pip install '.[inspect]'")
    from leaderboard.inspect_task import kernelbench

    given = {word.partition("=")[0] for word in code.split() if word != "-T"}
    assert given <= set(inspect.signature(kernelbench).parameters)


@pytest.mark.parametrize("code", list(dict.fromkeys(RUN)))
def test_what_is_marked_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("baselines", "data"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "submissions", tmp_path / "submissions")  # a link is no submission
    done = kbl(*shlex.split(code)[1:])

    assert (0, True) == (done.returncode, bool(done.stdout.strip())), done.stderr


@pytest.mark.parametrize("baseline", ["baselines/published/times/H100.json", "timing.json"])
def test_kernelbenchs_analysis_gives_the_figures_that_kbl_analyze_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, baseline: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "baselines").symlink_to(ROOT / "baselines")
    ours = json.loads((ROOT / "baselines/published/times/H100.json").read_bytes())["problems"]
    names = ("1_19", "1_20", "1_21")
    eager = {key: times["eager"]["mean"] for key, times in ours.items()}
    level1 = [problem for problem in ProblemSet() if problem.level == 1]
    theirs = {"level1": {f"{each.name}.py": {"mean": eager[f"1_{each.problem_id}"]} for each in level1}}
    (tmp_path / "timing.json").write_text(json.dumps(theirs))
    folder = tmp_path / "runs/r"
    folder.mkdir(parents=True)
    results = {}
    for key, speedup in zip(names, (0.9, 1.3, 2.7), strict=True):
        problem = key.partition("_")[2]
        (folder / f"level_1_problem_{problem}_sample_0_kernel.py").touch()
        time = eager[key] / speedup
        row = {"sample_id": 0, "compiled": True, "correctness": True, "metadata": {"hardware": "NVIDIA H100"}}
        results[problem] = [{**row, "runtime": time, "runtime_stats": {"mean": time}}]
    (folder / "eval_results.json").write_text(json.dumps(results))

    options = ["run_name=r", "level=1", "hardware=H100", "baseline=eager"]
    options += [f"baseline_file={baseline}", "output_file=out.json"]
    assert 0 == benchmark_eval_analysis.main(options)
    told = kbl(
        *["analyze", "runs/r", "--format", "json", "--no-categories", "--against"], f"eager={baseline}"
    ).stdout

    theirs, line = json.loads((tmp_path / "out.json").read_text()), json.loads(told)["lines"][0]
    assert pytest.approx((0.9 * 1.3 * 2.7) ** (1 / 3)) == theirs["geo_mean_speedup"] == line["geomean"]
    shares = {float(p): share for p, share in theirs["fast_p"].items()}
    assert {0.0: 0.03, 0.5: 0.03, 0.8: 0.03, 1.0: 0.02, 1.5: 0.01, 2.0: 0.01} == shares
    assert shares == {p: line[f"fast_{p:g}"] for p in shares}
