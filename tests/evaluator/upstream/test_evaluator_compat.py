"""The profile `compat`, with real processes: KernelBench's seeds, its tolerance, its files."""

import json

import pytest
from evaluating import RIGHT, SOURCE, jobs_of, kernel, standing
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.upstream.compat import trial_seeds
from typer.testing import CliRunner

from leaderboard.cli import app

PUBLISHED = [734796314, 576165995, 2197670066, 839703249, 2584932063]
"""What torch draws after `manual_seed(42)`, as KernelBench's runs have it."""

SEEDED = SOURCE.replace("self.norm(torch.relu(x))", "self.norm(torch.relu(x)) + torch.rand(1)")

SEES_SEED_42 = kernel(
    "return self.right(x) if float(self.drawn) == torch.rand(1, generator=torch.Generator().manual_seed(42)).item()"
    " else torch.zeros_like(x)",
    init="self.drawn = torch.rand(1)",
)

CASES = {
    "right": (RIGHT, "correct", ""),
    "built under seed 42": (SEES_SEED_42, "correct", ""),
    "relu left out, which uniform inputs do not show": (kernel("return self.norm(x)"), "correct", ""),
    "within 1e-4": (kernel("return self.right(x) + 9e-5"), "correct", ""),
    "beyond": (kernel("return self.right(x) + 2e-3"), "mismatch", "WrongOutput"),
    "NaN": (kernel("return self.right(x) * float('nan')"), "mismatch", "WrongOutput"),
    "another shape": (kernel("return self.right(x)[None]"), "mismatch", "WrongShape"),
    "another dtype": (kernel("return self.right(x).double()"), "runtime_error", "WrongType"),
    "a tuple": (kernel("return (self.right(x),)"), "runtime_error", "WrongStructure"),
    "dies": (kernel("os._exit(0)"), "runtime_error", "ProcessDied"),
    "no source": ("", "compile_error", "AttributeError"),
    "right again": (RIGHT, "correct", ""),
}


@pytest.fixture(scope="module")
def judge():
    with standing(profile="compat") as found:
        yield found


@pytest.fixture(scope="module")
def rows(judge):
    sources = [source for source, _, _ in CASES.values()]
    return dict(zip(CASES, judge(jobs_of(*sources)).values(), strict=True))


def test_trials_have_the_published_seeds():
    assert trial_seeds(5) == PUBLISHED


@pytest.mark.parametrize("case", CASES)
def test_a_kernel_is_judged_as_kernelbench_does(rows, case):
    _, status, name = CASES[case]
    row = rows[case]
    assert (str(row.status), row.failure.name if row.failure else "") == (status, name), row.failure


def test_single_calls_are_timed_and_means_compared(rows):
    row = rows["right"]
    assert (row.runtime_ms.n, row.reference_ms.n) == (100, 100)
    assert row.speedup == row.reference_ms.mean / row.runtime_ms.mean
    assert row.speedup_ci95[0] <= row.speedup <= row.speedup_ci95[1]


def test_every_trial_runs_and_each_failing_one_is_noted(rows):
    row = rows["beyond"]
    assert (row.trials_passed, row.trials_asked, row.speedup) == (0, 5, None)
    assert row.evidence["max_difference"] == ["0.002000"] * 5
    assert row.evidence["avg_difference"] == ["0.002000"] * 5


def test_forwards_are_reseeded_so_that_random_answers_can_be_right(judge):
    problem = Problem(level=1, problem_id=2, name="2_Random", source=SEEDED)
    sources = (kernel("return self.right(x) + torch.rand(1)"), kernel("return self.right(x) + 0.5"))
    rows = judge(jobs_of(*sources, problem=problem))
    assert [str(row.status) for row in rows.values()] == ["correct", "mismatch"]


def test_the_command_writes_a_file_of_its_own_for_the_profile(tmp_path):
    entry = {
        "metadata": {"display_name": "one"},
        "kernels": {"level_1_problem_19_sample_0": (_relu())},
    }
    path = tmp_path / "one.json"
    path.write_text(json.dumps(entry))
    options = [
        "--profile",
        "compat",
        "--timing-method",
        "host_time",
        "--device",
        "cpu",
        "--work",
        str(tmp_path),
        "--data",
        str(tmp_path),
    ]
    ended = CliRunner().invoke(app, ["evaluate", str(path), *options])
    assert ended.exit_code == 0, ended.output
    result = json.loads((tmp_path / "CPU-reduced-compat-host_time" / "one.json").read_text())
    assert (result["profile"], result["rows"][0]["status"]) == ("compat", "correct")
    assert result["rows"][0]["runtime_ms"]["n"] == 100


def _relu() -> str:
    return "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.clamp(min=0)\n"
