"""Baselines from this evaluator's own results: what is taken from which row, and what is refused."""

import json

import pytest
from fake_engine import FakeEngine
from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.rows import Status
from typer.testing import CliRunner

from leaderboard.cli import app
from leaderboard.files.baseline_files import read_baseline
from leaderboard.runs.baseline_runs import BaselineRun
from leaderboard.stages.engines import Place
from leaderboard.stages.plan import Selection


class Recorded(FakeEngine):
    """Judges compiled references at a speedup of two, and the one of problem 20 not at all."""

    def run(self, jobs, settings):
        marked = [self._marked(job) for job in jobs]
        yield from super().run(marked, settings)

    def _marked(self, job):
        if "self.compile" not in job.source:
            return job
        said = "# status compile_error" if job.key.problem_id == 20 else "# speedup 2.0"
        return type(job)(key=job.key, source=f"{said}\n{job.source}", problem=job.problem)


def run_of(folder, **settings):
    return BaselineRun(
        place=Place(engine=Recorded(), gpu="H200"),
        settings=Settings(**settings),
        problem_set=ProblemSet(),
        selection=Selection(problems=frozenset({(1, 19), (1, 20)})),
        work_root=folder,
    )


def test_one_run_of_the_compiled_reference_times_both_and_what_fails_is_timed_plain(tmp_path):
    rows = []
    baseline = run_of(tmp_path).measure(rows.append)
    relu, leaky = baseline.problems["1_19"], baseline.problems["1_20"]
    assert (relu.eager.median, relu.compiled.median) == (1.0, 0.5)
    assert (leaky.eager.median, leaky.compiled) == (1.0, None)
    assert baseline.measured_here and baseline.environment.torch == "2.13.0"
    assert [row.status for row in rows].count(Status.COMPILE_ERROR) == 1


def test_a_baseline_comes_out_of_recorded_results_without_measuring(tmp_path):
    run_of(tmp_path).measure(lambda row: None)
    results = [str(tmp_path / "H200" / f"{name}.json") for name in ("pytorch-eager", "torch-compile")]
    ended = CliRunner().invoke(app, ["baseline", "from-result", *results, "--out", str(tmp_path)])
    assert ended.exit_code == 0, ended.stderr
    baseline = read_baseline(tmp_path / "H200.json")
    assert baseline.problems["1_19"].compiled.median == 0.5
    assert baseline.problems["1_20"].eager.median == 1.0
    assert "pytorch-eager and torch-compile" in baseline.source


@pytest.mark.parametrize("name", ["pytorch-eager", "torch-compile-max-autotune", "first-light"])
def test_times_of_other_kernels_do_not_stand_as_those_of_torch_compile(tmp_path, name):
    run_of(tmp_path).measure(lambda row: None)
    compiled, other = (tmp_path / "H200" / f"{entry}.json" for entry in ("torch-compile", name))
    other.write_text(json.dumps({**json.loads(compiled.read_text()), "entry": name}))
    results = [str(compiled), str(other)]
    ended = CliRunner().invoke(app, ["baseline", "from-result", *results, "--out", str(tmp_path)])
    assert (2, False) == (ended.exit_code, (tmp_path / "H200.json").exists())
    assert f"the second result must be of torch-compile, got one of {name}" in ended.stderr


def test_a_precision_has_a_baseline_of_its_own(tmp_path):
    for precision in ("fp32", "bf16"):
        run_of(tmp_path, precision=precision).measure(lambda row: None)
    whole, half = (
        [str(tmp_path / board / f"{name}.json") for name in ("pytorch-eager", "torch-compile")]
        for board in ("H200", "H200-bf16")
    )
    for results in (whole, half):
        ended = CliRunner().invoke(app, ["baseline", "from-result", *results, "--out", str(tmp_path)])
        assert ended.exit_code == 0, ended.stderr
    assert [read_baseline(tmp_path / f"{board}.json").precision for board in ("H200", "H200-bf16")] == [
        "fp32",
        "bf16",
    ]
    mixed = CliRunner().invoke(app, ["baseline", "from-result", whole[0], half[1], "--out", str(tmp_path)])
    assert (mixed.exit_code, "of one board" in mixed.stderr) == (2, True)


def test_plain_pytorchs_own_result_counts_more_than_what_was_measured_beside_the_compiled_one(tmp_path):
    run_of(tmp_path).measure(lambda row: None)
    compiled, eager = (tmp_path / "H200" / f"{name}.json" for name in ("torch-compile", "pytorch-eager"))
    own = json.loads(compiled.read_text())
    own["rows"][0]["reference_ms"] |= {"median": 3.0, "max": 4.0}
    eager.write_text(json.dumps(own))
    results = [str(eager), str(compiled)]
    ended = CliRunner().invoke(app, ["baseline", "from-result", *results, "--out", str(tmp_path)])
    assert ended.exit_code == 0, ended.stderr
    relu = read_baseline(tmp_path / "H200.json").problems["1_19"]
    assert (relu.eager.median, relu.compiled.median) == (3.0, 0.5)


@pytest.mark.parametrize(("field", "value"), [("gpu", "H100"), ("profile", "compat")])
def test_results_that_do_not_belong_together_make_no_baseline(tmp_path, field, value):
    run_of(tmp_path).measure(lambda row: None)
    eager, compiled = (tmp_path / "H200" / f"{name}.json" for name in ("pytorch-eager", "torch-compile"))
    compiled.write_text(json.dumps({**json.loads(compiled.read_text()), field: value}))
    ended = CliRunner().invoke(
        app, ["baseline", "from-result", str(eager), str(compiled), "--out", str(tmp_path)]
    )
    assert (ended.exit_code, (tmp_path / "H200.json").exists()) == (2, False)
    assert "of one board" in ended.stderr
