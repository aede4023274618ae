"""The level 4 problems: tiny variants run and are judged on the CPU, files and configurations agree."""

import json
from typing import Any

import pytest
import torch
from evaluating import jobs_of, judge
from kernel_evaluator.problems.problem_set import Problem, ProblemSet, read_sizes
from kernel_evaluator.records.places import PROBLEM_SET

SIZES = read_sizes()
PROBLEMS = [ProblemSet().load(4, problem_id) for problem_id in ProblemSet().ids(4)]


def run(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "problem"}
    exec(source, names)
    return names


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_a_tiny_variant_gives_the_same_finite_logits_under_the_same_seed(problem: Problem) -> None:
    pytest.importorskip("transformers")
    reduced = problem.reduced(SIZES)
    names = run(reduced.sized_source)
    outputs = []
    for _ in range(2):
        torch.manual_seed(42)
        model = names["Model"](*names["get_init_inputs"]())
        with torch.no_grad():
            outputs.append(model(*names["get_inputs"]()))
    assert outputs[0].shape == (2, reduced.overrides["sequence_length"], names["vocab_size"])
    assert outputs[0].isfinite().all()
    assert torch.equal(*outputs)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_a_problem_carries_the_configuration_of_its_model(problem: Problem) -> None:
    names = run(problem.source)
    path = PROBLEM_SET / "level4" / "configs" / f"{names['model_name'].split('/')[-1]}.json"
    assert names["architecture"] == json.loads(path.read_text("utf-8"))
    inputs = names["get_inputs"]()[0]
    assert inputs.shape == (names["batch_size"], names["sequence_length"])
    assert inputs.dtype == torch.int64
    assert 0 <= inputs.min() and inputs.max() < names["vocab_size"]


def test_a_copy_of_a_reference_is_judged_right_and_a_wrong_kernel_is_not() -> None:
    pytest.importorskip("transformers")
    problem = ProblemSet().load(4, 7).reduced(SIZES)
    wrong = (
        "\n\nclass ModelNew(Model):\n    def forward(self, x):\n        return super().forward(x) * 1.01\n"
    )
    copy = problem.source.rstrip() + "\n\nModelNew = Model\n"
    rows = judge(jobs_of(copy, problem.source.rstrip() + wrong, problem=problem), measure=False)
    assert [str(row.status) for row in rows.values()] == ["correct", "mismatch"]
    assert rows[0].worst_error == 0.0
