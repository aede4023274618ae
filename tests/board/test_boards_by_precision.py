"""A board is a GPU and a precision: what a bf16 entry is judged by, and that two boards never meet."""

import json
from dataclasses import replace

import pytest
from evaluating import PROBLEM, SOURCE, jobs_of, judge, kernel
from fake_engine import GPU, FakeEngine
from kernel_evaluator.baselines import BaselineFile, BaselineTiming, ProblemBaseline, dump_baseline
from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import ProblemSet
from typer.testing import CliRunner

from leaderboard.cli import app
from leaderboard.files import store, submission
from leaderboard.stages.boards import load_boards
from leaderboard.stages.evaluate import Evaluation, evaluate, load_problems
from leaderboard.stages.record import Case, RefusedError, record

BODY = "# speedup 2.0\nclass ModelNew:\n    pass\n"
TRIPLED = SOURCE.replace("self.norm(torch.relu(x))", "torch.relu(x) * 3")
IN_FP32 = kernel("return (x.float().clamp(min=0) * 3).to(x.dtype)")
AS_FP8, AS_FP4 = (
    kernel(
        "fraction, exponent = torch.frexp(x.clamp(min=0).float())",
        f"return (torch.ldexp(torch.round(fraction * {steps}) / {steps}, exponent) * 3).to(x.dtype)",
    )
    for steps in (16, 4)
)
IN_ANOTHER_TYPE = kernel("return x.float().clamp(min=0) * 3")


def test_inputs_and_outputs_are_bf16_and_what_lies_between_is_free():
    problem = replace(PROBLEM, source=TRIPLED)
    jobs = jobs_of(IN_FP32, AS_FP8, IN_ANOTHER_TYPE, AS_FP4, problem=problem)
    rows = judge(jobs, precision="bf16", measure=False)
    assert rows[0].status == "correct"
    assert rows[1].status in ("mismatch", "fragile")  # by what rounding does to the inputs that are drawn
    assert (rows[2].status, rows[2].failure.name) == ("mismatch", "WrongType")
    assert rows[3].status == "mismatch"


class Repository:
    """A folder with an entry for each precision."""

    def __init__(self, folder):
        self.folder, self.data = folder, folder / "data"
        (folder / "submissions").mkdir()
        for name, precision in (
            ("half", {"precision": "bf16"}),
            ("whole", {}),
            ("mixed", {"precision": "tf32"}),
        ):
            body = {
                "metadata": {"display_name": name, **precision},
                "kernels": {"level_1_problem_1_sample_0": BODY},
            }
            (folder / "submissions" / f"{name}.json").write_text(json.dumps(body))

    def evaluated(self, entry, **settings):
        loaded = submission.load(self.folder / "submissions" / f"{entry}.json")
        problems = load_problems(ProblemSet(), loaded.kernels, "full")
        judged_as = Settings(**{"precision": loaded.precision, **settings})
        evaluation = Evaluation(
            submission=loaded,
            problems=problems,
            settings=judged_as,
            gpu=GPU.gpu,
            work_root=self.folder / "work",
        )
        outcome = evaluate(evaluation, FakeEngine(), lambda row: None)
        return Case(result=outcome.result, submission=loaded, problems=problems), outcome.path


def test_entries_of_two_precisions_stand_on_two_boards(tmp_path):
    repository = Repository(tmp_path)
    for entry in ("half", "whole", "mixed"):
        case, path = repository.evaluated(entry)
        assert record(case, path, data=repository.data).changed
    assert [path.parent.name for path in sorted((repository.data / "results").glob("*/*.json"))] == [
        "H200",
        "H200",
        "H200-bf16",
    ]
    boards = {board.name: board for board in load_boards(repository.data, tmp_path / "submissions")}
    assert {name: {s.entry for s in board.standings} for name, board in boards.items()} == {
        "H200": {"mixed", "whole"},
        "H200-bf16": {"half"},
    }
    assert store.read_result(repository.data / "results/H200-bf16/half.json").precision == "bf16"


def test_what_a_reference_takes_in_fp32_is_not_held_against_rows_in_bf16(tmp_path):
    repository = Repository(tmp_path)
    times = BaselineTiming(mean=600.0, std=0.0, min=600.0, max=600.0, n=9, median=600.0)
    known = BaselineFile(
        gpu=GPU.gpu,
        source="test",
        measured_here=True,
        environment=GPU,
        problems={"1_1": ProblemBaseline(eager=times, compiled=None)},
    )
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / "H200.json").write_text(dump_baseline(known))
    folders = [f"--{name}={tmp_path / name}" for name in ("data", "submissions", "baselines")]
    said = {}
    for entry in ("half", "whole"):
        _, path = repository.evaluated(entry)
        said[entry] = CliRunner().invoke(app, ["record", str(path), *folders]).output
    assert "the reference takes about 600" in said["whole"]
    assert said["half"].startswith("recorded")


def test_rows_of_another_precision_than_the_entrys_are_refused(tmp_path):
    repository = Repository(tmp_path)
    case, path = repository.evaluated("half", precision="fp32")
    with pytest.raises(RefusedError, match=r"precision must be bf16, as metadata\.precision"):
        record(case, path, data=repository.data)
