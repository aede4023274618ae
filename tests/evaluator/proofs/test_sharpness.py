"""Twins: cheaper references are caught where inputs decide, and pass where these are blunt."""

import json

import pytest
from kernel_evaluator.problems import deciding
from kernel_evaluator.problems.problem_set import Problem, ProblemSet, read_sizes
from kernel_evaluator.proofs import sharpness, twins
from typer.testing import CliRunner

from leaderboard.cli import app

PRODUCT = """
import torch

class Model(torch.nn.Module):
    def forward(self, a, b):
        return torch.relu(torch.matmul(a, b))

def get_inputs():
    return [torch.rand(64, 256), torch.rand(256, 64)]

def get_init_inputs():
    return []
"""


def made(source):
    return Problem(level=1, problem_id=1, name="1_Made", source=source)


def real(level, problem_id):
    return ProblemSet().load(level, problem_id).reduced(read_sizes())


def seen(problem, distribution, precision="fp32"):
    return sharpness.Survey(problem, "cpu", precision, "affine").see(distribution)


def entry(problem, precision="fp32"):
    ((_, found),) = sharpness.survey([problem], "cpu", precision, {})
    return found


def test_lower_precision_passes_on_upstreams_inputs_and_is_caught_on_others():
    assert seen(made(PRODUCT), "upstream").errors["tf32"] < 1
    for distribution in ("signed", "one_sided", "mixed"):
        errors = seen(made(PRODUCT), distribution).errors
        assert errors["tf32"] > 1 and errors["bf16"] > 1, distribution


def test_a_step_left_out_is_a_twin_that_only_signed_inputs_tell():
    usual, signed = seen(made(PRODUCT), "upstream").errors, seen(made(PRODUCT), "signed").errors
    (step,) = (name for name in usual if name.startswith(twins.STEP) and usual[name] == 0)
    assert signed[step] > 1


def test_twins_that_do_not_fit_are_left_out_and_those_that_fit_are_of_every_kind():
    errors = seen(made(PRODUCT), "upstream").errors
    assert {"one in 64 left out", "one in 8 read", "half of axis -1", "zeros", "previous output"} <= set(
        errors
    )
    assert "one in 8 read" not in seen(made(PRODUCT.replace("64", "2").replace("256", "16")), "signed").errors


MEAN_OF_SQUARES = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.mean(x ** 2)

def get_inputs():
    return [torch.rand(4096, 2048)]

def get_init_inputs():
    return []
"""
NORMALISED = MEAN_OF_SQUARES.replace("4096, 2048", "8, 2, 1024, 512").replace(
    "return torch.mean(x ** 2)", "return torch.nn.functional.batch_norm(x, None, None, training=True)"
)


@pytest.mark.parametrize("source", [MEAN_OF_SQUARES, NORMALISED])
def test_in_half_precision_a_few_needles_tell_a_sum_of_one_in_eight_elements(source):
    survey = sharpness.Survey(made(source), "cpu", "bf16", "affine")
    usual, few = (survey.see(name).errors["one in 8 summed"] for name in ("upstream", "few_needles"))
    assert usual < 1 < few


def test_what_sums_nothing_has_no_twin_that_sums_less():
    assert "one in 8 summed" not in seen(made(PRODUCT), "upstream").errors


def test_a_usual_distribution_that_is_blunt_is_timed_seldom():
    deal = deciding.deal_of(entry(made(PRODUCT)))
    assert not deal.undecided and deal.blunt == ()
    assert deal.shares["upstream"] == deciding.USUAL_SHARE <= min(deal.shares.values())
    assert sum(deal.shares.values()) == pytest.approx(1)


def test_what_is_always_zero_cannot_be_judged():
    assert "zeros" in deciding.deal_of(entry(real(2, 80))).undecided


def test_where_an_earlier_output_does_livelier_weights_are_timed():
    problem = real(3, 3)
    assert seen(problem, "upstream").errors["previous output"] < 1
    found = entry(problem)
    assert found["variant"] == "lively" and not deciding.deal_of(found).undecided


def test_how_much_of_an_output_is_replaceable_leaves_out_what_is_zero_itself():
    product = seen(made(PRODUCT), "signed").shares
    assert max(product.values()) < 0.01, "half of the output is zero, and so are zeros"
    near = PRODUCT.replace("torch.relu(", "1 + 1e-6 * torch.relu(")
    assert seen(made(near), "upstream").shares["earlier"] > 0.9


def test_what_was_never_looked_at_is_timed_on_all_distributions_alike():
    shares = deciding.deal_for(made(PRODUCT), "fp32", ["upstream", "signed"]).shares
    assert shares == {"upstream": 0.5, "signed": 0.5}


def test_the_command_goes_on_where_it_stopped_and_looks_again_at_what_changed(tmp_path):
    path, certificates = tmp_path / "sharpness.json", tmp_path / "certificates.json"
    arguments = ["certify", "--device", "cpu", "--twins", str(path), "--out", str(certificates)]
    none_yet = CliRunner().invoke(app, [*arguments, "--only", "1/94", "--limit-s", "0"])
    assert none_yet.exit_code == 1 and not path.exists()
    done = CliRunner().invoke(app, [*arguments, "--only", "1/94"])
    assert done.exit_code == 0 and "1_94: decided by" in done.output
    assert CliRunner().invoke(app, [*arguments, "--only", "1/97"]).exit_code == 0
    values = json.loads(path.read_text())
    assert [*values["problems"]["reduced"]] == ["1_94", "1_97"]
    before = path.read_bytes()
    assert CliRunner().invoke(app, [*arguments, "--only", "1/94"]).exit_code == 0
    assert path.read_bytes() == before
    values["problems"]["reduced"]["1_94"]["survey_sha256"] = "of other twins"
    path.write_text(json.dumps(values))
    again = CliRunner().invoke(app, [*arguments, "--only", "1/94,1/97"])
    assert "1_94: " in again.output and "1_97: " not in again.output


def test_where_no_inputs_say_anything_the_problem_is_undecided():
    deal = deciding.deal_of({"variant": "affine", "inputs": {"upstream": None, "signed": None}})
    assert deal.undecided == "no distribution says anything" and deal.shares == {"upstream": 1.0}


@pytest.mark.parametrize(
    ("precision", "share", "decides"),
    [("fp32", 0.05, True), ("fp32", 0.2, False), ("bf16", 0.5, True), ("bf16", 0.9, False)],
)
def test_more_may_be_right_by_chance_where_the_tolerance_is_wider(precision, share, decides):
    inputs = {"signed": {"passes": {}, "shares": {"constant": share}}}
    deal = deciding.deal_of({"precision": precision, "variant": "affine", "inputs": inputs})
    assert bool(deal.undecided) is not decides


def test_a_twin_that_saves_next_to_nothing_may_pass_where_no_inputs_tell_all():
    def seen_on(*twins):
        return {"passes": dict.fromkeys(twins, 0.5), "shares": {}}

    def deal(**inputs):
        return deciding.deal_of({"variant": "affine", "inputs": inputs})

    few = deal(signed=seen_on("one in 64 left out"), needles=seen_on("zeros"))
    assert set(few.shares) == {"upstream", "signed"} and not few.undecided and few.blunt == ()
    assert set(deal(signed=seen_on("one in 64 left out"), needles=seen_on()).shares) == {
        "upstream",
        "needles",
    }
    assert deal(signed=seen_on("one in 8 read"), needles=seen_on("zeros")).undecided
