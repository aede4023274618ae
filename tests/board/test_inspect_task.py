"""The Inspect task runs to a score with a mock model, on the CPU at reduced sizes."""

import pytest

pytest.importorskip("inspect_ai", reason="inspect_ai is not installed: pip install '.[inspect]'")

from inspect_ai import eval as inspect_eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from leaderboard.inspect_task import kernelbench

RELU = """Here:

```python
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.clamp(x, min=0)
```
"""


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


@pytest.mark.timeout(900)
def test_a_right_and_a_wrong_kernel_get_their_scores(tmp_path):
    log = run(
        tmp_path,
        [RELU, RELU],
        splits="level_1",
        problem_ids=[19, 21],
        p=0.0001,
        max_regenerations=0,
        timing_method="cuda_event",
    )
    found = scores(log)
    assert 2 == len(log.samples)
    assert 1.0 == found["level_1_problem_19"].value["compiled"]
    assert found["level_1_problem_19"].metadata["row"]["trials_passed"] == 2
    assert 0.0 == found["level_1_problem_21"].value["correct"]
    assert "mismatch" in found["level_1_problem_21"].explanation
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
