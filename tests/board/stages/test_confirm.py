"""A speedup that counts is looked for twice: the lower one stands, and an interruption loses nothing."""

import json
from dataclasses import replace

import pytest
from fake_engine import GPU, FakeEngine
from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.rows import Status

from leaderboard.files import store, submission
from leaderboard.stages.confirm import SECOND_TRIALS, confirmed, second_settings, seconds_spent
from leaderboard.stages.evaluate import Evaluation, evaluate, load_problems


class Asked(FakeEngine):
    """Notes for each time it is asked how many trials were wanted, and of which problems."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def run(self, jobs, settings):
        self.asked.append((settings.trials, sorted(job.key.problem_id for job in jobs)))
        yield from super().run(jobs, settings)


def evaluation_of(folder, *firsts, **choices):
    kernels = {
        f"level_1_problem_{at}_sample_0": f"{first}\nclass ModelNew:\n    pass\n"
        for at, first in enumerate(firsts, 1)
    }
    path = folder / "mine.json"
    store.write_atomically(path, json.dumps({"metadata": {"display_name": "mine"}, "kernels": kernels}))
    loaded = submission.load(path)
    return Evaluation(
        submission=loaded,
        problems=load_problems(ProblemSet(), loaded.kernels, "full"),
        settings=Settings(),
        gpu=GPU.gpu,
        work_root=folder / "work",
        **choices,
    )


def judged(evaluation, engine, on_row=lambda row: None):
    return {row.key.problem_id: row for row in evaluate(evaluation, engine, on_row).result.rows}


def test_the_lower_of_both_counts_and_what_does_not_count_is_judged_once(tmp_path):
    firsts = ("# speedup 3.0 2.0", "# speedup 2.0 3.0", "# speedup 0.9", "# status mismatch")
    engine = Asked()
    outcome = evaluate(evaluation_of(tmp_path, *firsts), engine, lambda row: None)
    rows = {row.key.problem_id: row for row in outcome.result.rows}
    assert (outcome.judged, outcome.unfinished, outcome.waiting) == (4, (), [])
    assert engine.asked == [(5, [1, 2, 3, 4]), (SECOND_TRIALS, [1, 2])]
    assert [rows[at].speedup for at in (1, 2, 3)] == pytest.approx([2.0, 2.0, 0.9], rel=1e-3)
    assert [rows[at].second is not None for at in (1, 2, 3, 4)] == [True, True, False, False]
    assert (rows[1].gpu_seconds, rows[1].second["gpu_seconds"], rows[1].trials_passed) == (1.0, 1.0, 5)
    assert seconds_spent(rows.values()) == (6.0, 12.0)


@pytest.mark.parametrize("ends", ["mismatch", "quarantined"])
def test_what_is_found_the_second_time_is_the_verdict(tmp_path, ends):
    row = judged(evaluation_of(tmp_path, f"# speedup 3.0 {ends}"), FakeEngine())[1]
    assert (row.status, row.speedup, row.second) == (Status(ends), None, None)
    assert row.failure.message.startswith("when it was judged a second time: ")
    assert row.gpu_seconds == 2.0


def test_where_the_second_says_nothing_the_first_waits_for_it(tmp_path):
    evaluation = evaluation_of(tmp_path, "# speedup 3.0 infra_error")
    heard = []
    outcome = evaluate(evaluation, FakeEngine(), lambda row: heard.append(row.status))
    (row,) = outcome.result.rows
    assert heard == [Status.CORRECT, Status.INFRA_ERROR], "why it waits is told"
    assert (row.status, row.speedup, row.second, row.gpu_seconds) == (Status.CORRECT, 3.0, None, 2.0)
    assert outcome.unfinished == (row.key,)
    left = evaluation.plan(evaluation.previous())
    assert (left.jobs, [job.key for job in left.unconfirmed]) == ((), [row.key])


def test_a_verdict_names_the_place_of_the_evaluation_that_found_it(tmp_path):
    class Moving(FakeEngine):
        def run(self, jobs, settings):
            driver = "580.2" if settings.trials == SECOND_TRIALS else "570.1"
            for verdict in super().run(jobs, settings):
                yield replace(verdict, environment=replace(GPU, driver=driver))

    evaluation = evaluation_of(tmp_path, "# speedup 3.0", "# speedup 3.0 mismatch")
    found = evaluate(evaluation, Moving(), lambda row: None).result
    assert [found.environments[row.environment].driver for row in found.rows] == ["570.1", "580.2"]


def test_an_engine_that_falls_silent_before_the_second_evaluation_leaves_it_to_be_done(tmp_path):
    class Silent(FakeEngine):
        def run(self, jobs, settings):
            return super().run(jobs, settings) if settings.trials != SECOND_TRIALS else iter(())

    outcome = evaluate(evaluation_of(tmp_path, "# speedup 3.0", "# speedup 0.9"), Silent(), lambda row: None)
    assert [str(key) for key in outcome.unfinished] == ["level_1_problem_1_sample_0"]


def test_a_kernel_that_the_engine_said_nothing_of_is_left_to_be_done(tmp_path):
    class Forgetful(FakeEngine):
        def run(self, jobs, settings):
            return super().run(jobs[:1], settings)

    outcome = evaluate(
        evaluation_of(tmp_path, "# speedup 3.0", "# speedup 2.0"), Forgetful(), lambda row: None
    )
    assert (outcome.judged, outcome.found_once) == (1, ())
    assert [str(key) for key in outcome.waiting] == ["level_1_problem_2_sample_0"]


def test_worst_error_and_labels_are_those_of_both_evaluations(tmp_path):
    evaluation = evaluation_of(tmp_path, "# speedup 3.0")
    (first,) = judged(replace(evaluation, confirms=False), FakeEngine()).values()
    first, second = (
        replace(first, worst_error=error, labels=labels)
        for error, labels in ((0.2, ("general",)), (0.9, ("deferred-work",)))
    )
    both = confirmed(first, second)
    assert (both.worst_error, both.labels) == (0.9, ("general", "deferred-work"))
    untimed = confirmed(first, replace(second, speedup=None, speedup_ci95=None))
    assert (untimed.speedup, untimed.failure, untimed.gpu_seconds) == (None, None, 2.0)


def test_the_second_evaluation_judges_by_the_same_rules_without_what_only_labels_hang_on():
    asked = Settings(profile_launches=True, precision="bf16", switched_off=("stand",), trials=7)
    second = second_settings(asked)
    assert (second.profile_launches, second.trials) == (False, SECOND_TRIALS)
    assert second.switched_off == ("stand", "census", "elsewhere")
    assert (second.precision, second.sizes, second.timeout_s) == ("bf16", asked.sizes, asked.timeout_s)


def test_an_interruption_between_both_is_continued_by_the_second_alone(tmp_path):
    evaluation = evaluation_of(tmp_path, "# speedup 3.0", "# speedup 2.0", "# speedup 1.5")

    def interrupt(row):
        if row.second is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judged(evaluation, FakeEngine(), interrupt)
    left = evaluation.plan(evaluation.previous())
    assert (left.jobs, left.good, len(left.unconfirmed)) == ((), 3, 2)
    engine = Asked()
    assert all(row.second for row in judged(evaluation, engine).values())
    assert [(trials, len(problems)) for trials, problems in engine.asked] == [(SECOND_TRIALS, 2)]


def test_whoever_does_not_publish_judges_once(tmp_path):
    engine = Asked()
    assert judged(evaluation_of(tmp_path, "# speedup 3.0", confirms=False), engine)[1].second is None
    assert len(engine.asked) == 1
    for choice in ({"profile": "compat"}, {"measure": False}):
        engine, evaluation = Asked(), evaluation_of(tmp_path, "# speedup 3.0")
        judged(replace(evaluation, settings=replace(evaluation.settings, **choice)), engine)
        assert len(engine.asked) == 1
