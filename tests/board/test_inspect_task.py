"""The Inspect task runs to a score with a mock model, on the CPU at reduced sizes."""

import inspect

import pytest

pytest.importorskip("inspect_ai", reason="inspect_ai is not installed: pip install '.[inspect]'")

from compiling import TINY
from fake_engine import judge
from inspect_ai import Task
from inspect_ai import eval as inspect_eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import mean, scorer
from kernel_evaluator.building.builder import CACHE_VARIABLE
from kernel_evaluator.problems.jobs import Job
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import KernelKey

from leaderboard import inspect_task
from leaderboard.inspect_task import kernelbench

RELU = """Here:

```python
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.clamp(x, min=0)
```
"""


def test_the_page_on_tools_names_every_option(repository):
    page = (repository / "docs/tools.md").read_text("utf-8").partition("## The Inspect task")[2]
    options = set(inspect.signature(kernelbench).parameters) - {"unknown"}
    assert set() == {name for name in options if f"`{name}`" not in page}


def scores(log):
    return {sample.id: next(iter(sample.scores.values())) for sample in log.samples}


def run(tmp_path, outputs, **options):
    answers = [ModelOutput.from_content("mockllm/model", text) for text in outputs]
    for answer in answers:
        answer.usage = ModelUsage(
            input_tokens=1, output_tokens=1, total_tokens=2
        )  # or Inspect asks the network
    model = get_model("mockllm/model", custom_outputs=answers)
    [log] = inspect_eval(
        kernelbench(device="cpu", num_correct_trials=2, backend="triton", **options),
        model=model,
        log_dir=str(tmp_path),
        display="none",
    )
    assert "success" == log.status, log.error
    return log


COMPILED = RELU.replace("import torch\n", TINY)


@pytest.mark.timeout(900)
def test_a_right_and_a_wrong_kernel_get_their_scores(tmp_path, monkeypatch, capfd):
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    log = run(
        tmp_path,
        [COMPILED, COMPILED],
        splits="level_1",
        problem_ids=[19, 21],
        p=0.0001,
        max_regenerations=0,
        timing_method="cuda_event",
        build_dir=str(tmp_path / "builds"),
        verbose=True,
    )
    found = scores(log)
    assert 2 == len(log.samples)
    assert 1.0 == found["level_1_problem_19"].value["compiled"]
    assert found["level_1_problem_19"].metadata["row"]["trials_passed"] == 2
    assert 0.0 == found["level_1_problem_21"].value["correct"]
    assert "mismatch" in found["level_1_problem_21"].explanation
    said = capfd.readouterr().err.splitlines()
    assert {f"{name}: {score.explanation}" for name, score in found.items()} <= set(said)
    assert [*(tmp_path / "builds").rglob("build.json")] != []
    metrics = {score.name: score.metrics["mean"].value for score in log.results.scores}
    assert {"compiled": 1.0, "fast_0.0001": metrics["correct"], "correct": metrics["correct"]} == metrics


def test_an_answer_without_code_is_asked_for_again_and_scores_nothing_in_the_end(tmp_path):
    log = run(tmp_path, ["no code", "still none"], splits="level_1", problem_ids=20, max_regenerations=1)
    [score] = scores(log).values()
    assert {"compiled": 0.0, "correct": 0.0, "fast_1": 0.0} == score.value
    assert "no answer held a complete code block" == score.explanation
    assert 4 == len(log.samples[0].messages)


@pytest.mark.parametrize(
    ("option", "said"),
    [("max_regeneration", "did you mean max_regenerations"), ("colour", "there are splits, problem_ids")],
)
def test_an_option_that_there_is_not_is_refused_by_its_name(option, said):
    with pytest.raises(ValueError, match=f"kernelbench has no option '{option}'; {said}"):
        kernelbench(device="cpu", **{option: 1})


def test_options_shared_with_inspect_evals_have_its_names_and_defaults():
    task = kernelbench(device="cpu", backend="triton")
    assert 250 == len(task.dataset)
    assert 0.0 == task.config.temperature
    few = kernelbench(
        device="cpu", limit=3, include_hardware=True, gpu_name="H200", option="zero_shot", num_perf_trials=10
    )
    assert 3 == len(few.dataset)
    assert all("H200" in sample.input for sample in few.dataset)


@pytest.mark.parametrize(
    ("named", "device", "gpus"),
    [
        (1, "cuda", (1,)),
        ("1", "cuda", (1,)),
        ("cuda:0", "cuda", (0,)),
        ("cuda", "cuda", (0, 1)),
        ("cpu", "cpu", ()),
    ],
)
def test_one_gpu_is_named_by_its_index(monkeypatch, named, device, gpus):
    asked = []
    monkeypatch.setattr(inspect_task, "visible_gpus", lambda: ["NVIDIA H100", "NVIDIA H100"])
    monkeypatch.setattr(
        inspect_task, "judged", lambda settings, p, gpus, *_, **__: asked.append((settings.device, gpus))
    )
    kernelbench(device=named, problem_ids=19)
    assert [(device, gpus)] == asked


def test_a_gpu_that_there_is_not_is_named(monkeypatch):
    monkeypatch.setattr(inspect_task, "visible_gpus", lambda: ["NVIDIA H100", "NVIDIA H100"])
    with pytest.raises(ValueError, match="device=2: there is no such GPU here, of 2 that can be seen"):
        kernelbench(device=2)


def test_what_the_machinery_failed_at_is_in_no_metric(tmp_path):
    problem = ProblemSet().load(1, 19)

    @scorer(metrics={"*": [mean()]})
    def of_rows():
        async def score(state, target):
            row = judge(Job(key=KernelKey(1, 19), source=state.input_text, problem=problem), "0" * 64)
            return inspect_task._score(row, 1.0, answer="", explanation="")

        return score

    heads = ("# status infra_error", "# status mismatch", "# speedup 2.0")
    [log] = inspect_eval(
        Task(dataset=[Sample(input=head) for head in heads], solver=[], scorer=of_rows()),
        model="mockllm/model",
        log_dir=str(tmp_path),
        display="none",
    )
    metrics = {score.name: score.metrics["mean"].value for score in log.results.scores}
    assert {"compiled": 1.0, "correct": 0.5, "fast_1": 0.5} == metrics


def test_a_problem_that_there_is_not_is_named():
    with pytest.raises(ValueError, match="problem_ids: no problem 99 in level 3; kbl problems list"):
        kernelbench(device="cpu", splits="level_3", problem_ids=[1, 99])


def test_an_option_that_changes_nothing_says_so(capfd):
    kernelbench(device="cpu", problem_ids=19, num_perf_trials=10)
    why = "timing goes on until its interval is tight, and compat times a hundred calls"
    assert f"num_perf_trials changes nothing: {why}" in capfd.readouterr().err
