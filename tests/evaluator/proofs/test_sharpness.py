"""Twins: cheaper references are caught where inputs decide, and pass where these are blunt."""

import json

import pytest
import torch
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


def given_by(name, model, *inputs, low=None):
    """What a twin of a model gives on inputs."""

    def run(model, inputs):
        with torch.no_grad():
            given = model(*(value.clone() for value in inputs))
        return [*given] if isinstance(given, tuple) else [given]

    expected = run(model, [*inputs])
    scene = twins.TwinScene(
        model=model,
        run=run,
        inputs=[*inputs],
        expected=expected,
        earlier_inputs=[*inputs],
        earlier=expected,
        run_part=lambda leaf: None,
    )
    given = twins.attempt(twins.twins_of(scene, low)[name], scene)
    return given and given[0]


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
    survey, name = sharpness.Survey(made(source), "cpu", "bf16", "affine"), "one in 8 summed"
    survey.twins = {name: survey.twins[name]}
    usual, few = (survey.see(kind).errors[name] for kind in ("upstream", "few_needles"))
    assert usual < 1 < few


def test_what_sums_nothing_has_no_twin_that_sums_less():
    assert "one in 8 summed" not in seen(made(PRODUCT), "upstream").errors


@pytest.mark.parametrize("size", [8, 9, 10, 11, 16, 101])
@pytest.mark.parametrize("axis", [0, -2, -1])
def test_a_half_of_inputs_is_a_copy_of_the_other_or_the_inner_quarters_are_of_the_outer(axis, size):
    x = torch.randn(3, 8, 8).movedim(axis, 0)[:1].expand(size, -1, -1)
    x = (x + torch.arange(size).view(-1, 1, 1)).movedim(0, axis).contiguous()
    half, quarter, numbers = size // 2, size // 4, [*range(size)]
    first, last = numbers[:half], numbers[size - half :]
    outer, end = numbers[:quarter], numbers[size - quarter :]
    for name, places in {
        "half": numbers[: size - half] + first,
        "other half": last + numbers[half:],
        "inner half": outer + outer + numbers[2 * quarter : half] + end + numbers[half + quarter :],
    }.items():
        given = given_by(f"{name} of axis {axis}", torch.nn.Identity(), x)
        assert torch.equal(given, x.index_select(axis, torch.tensor(places))), name


@pytest.mark.parametrize("kind", ["other half", "inner half"])
def test_short_axes_and_few_numbers_have_no_halves(kind):
    for shape in ((7, 16), (8, 7)):
        assert given_by(f"{kind} of axis 0", torch.nn.Identity(), torch.randn(shape)) is None
    assert given_by(f"{kind} of axis -1", torch.nn.Identity(), torch.randn(16, 7)) is None
    assert given_by(f"{kind} of axis -2", torch.nn.Identity(), torch.randn(64)) is None
    assert given_by(f"{kind} of axis 0", torch.nn.Identity(), torch.arange(64)) is None


LAST_STATE = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.GRU(16, 16)

    def forward(self, x):
        return self.layer(x)[1]

def get_inputs():
    return [torch.rand(256, 4, 16)]

def get_init_inputs():
    return []
"""
ALL_STATES = LAST_STATE.replace("[1]", "[0]")
SUM = LAST_STATE.replace("self.layer(x)[1]", "x.sum(0)")


def test_a_last_state_comes_from_the_other_half_of_a_sequence_and_a_sum_does_not():
    last, every, summed = (seen(made(source), "signed").errors for source in (LAST_STATE, ALL_STATES, SUM))
    assert last["other half of axis 0"] < 1 < last["half of axis 0"]
    assert min(every["other half of axis 0"], every["half of axis 0"], every["inner half of axis 0"]) > 1
    assert min(summed["other half of axis 0"], summed["inner half of axis 0"]) > 1


def test_states_that_fade_are_told_from_forgotten_ones_by_no_inputs_and_what_has_none_has_no_such_twin():
    for source in (LAST_STATE, ALL_STATES):
        assert seen(made(source), "signed").errors["forgetting"] < 1
    assert "forgetting" not in seen(made(SUM), "signed").errors
    assert "forgetting" not in seen(made(PRODUCT), "signed").errors


ATTENTION = """
import torch

class Model(torch.nn.Module):
    def forward(self, query, key, value):
        return torch.nn.functional.scaled_dot_product_attention(query, key, value)

def get_inputs():
    return [torch.rand(2, 256, 16) for _ in range(3)]

def get_init_inputs():
    return []
"""


def test_a_softmax_made_linear_is_a_twin_of_attention_alone_and_is_told_where_scores_scatter():
    usual, signed = (seen(made(ATTENTION), name).errors for name in ("upstream", "signed"))
    assert usual["softmax made linear"] < signed["softmax made linear"] and 1 < signed["softmax made linear"]
    assert "softmax made linear" not in seen(made(PRODUCT), "signed").errors


PRECISIONS = {"fp16": torch.bfloat16, "bf16": torch.bfloat16, "fp8": None}
"""How inputs are rounded, and what half precision is there where they are in more."""


def about_mean(x, to):
    return given_by(f"{to} about the mean", torch.nn.Identity(), x, low=PRECISIONS[to])


def rows_about(mean):
    """Rows of a mean that is exact, and of what rounding to eleven bits changes."""
    halves = torch.randint(-(1 << 14), 1 << 14, (5, 64)) / (1 << 14)
    return mean + torch.cat([halves, -halves], 1)


@pytest.mark.parametrize("mean", [0.0, 3.0])
@pytest.mark.parametrize("to", PRECISIONS)
def test_about_their_means_rows_are_rounded_and_scaled_to_the_norm_that_they_had(to, mean):
    torch.manual_seed(1)
    x = rows_about(mean)
    given, rest = about_mean(x, to), x - mean
    low = twins.rounded(rest, to=to)
    assert not torch.equal(low, rest) and not torch.equal(given, x)
    ratio = rest.norm(dim=-1, keepdim=True) / low.norm(dim=-1, keepdim=True)
    torch.testing.assert_close(given - mean, low * ratio, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close((given - mean).norm(dim=-1), rest.norm(dim=-1), rtol=1e-6, atol=0)


@pytest.mark.parametrize("to", PRECISIONS)
def test_rounding_about_means_moves_means_and_norms_less_than_rounding_does(to):
    torch.manual_seed(2)
    x = torch.rand(64, 512) + 5.01
    plain, kept = twins.rounded(x, to=to), about_mean(x, to)
    for measure in (torch.mean, torch.linalg.vector_norm):
        moved, still = ((measure(each, dim=-1) / measure(x, dim=-1) - 1).abs() for each in (plain, kept))
        assert still.mean() < moved.mean() / 5
    assert (kept - x).abs().max() > 1e-5


@pytest.mark.parametrize("to", ["fp16", "bf16"])
def test_rows_of_one_number_stay_as_they_are(to):
    for x in (torch.full((4, 16), 0.3), torch.randn(16, 1), torch.zeros(16), torch.tensor([[1.5], [0.0]])):
        torch.testing.assert_close(about_mean(x, to), x, rtol=1e-6, atol=0)


def test_a_row_of_one_number_stays_as_it_is_among_others_that_are_rounded_to_eight_bits():
    x = torch.cat([torch.full((2, 16), 0.25), torch.randn(2, 16)]).bfloat16()
    given = about_mean(x, "fp8")
    assert given.isfinite().all() and torch.equal(given[:2], x[:2])


@pytest.mark.parametrize("name", ["fp8", "fp8 about the mean"])
def test_zeros_stay_zeros_in_eight_bits(name):
    x = torch.zeros(16, dtype=torch.bfloat16)
    assert torch.equal(given_by(name, torch.nn.Identity(), x), x)


def test_biases_of_channels_stay_finite_in_eight_bits_about_the_mean():
    x = torch.randn(16, 1, 1).bfloat16()
    assert torch.equal(about_mean(x, "fp8"), x)


def test_eight_bits_are_of_bf16_too():
    torch.manual_seed(3)
    x = (torch.randn(16, 256) + 2).bfloat16()
    for name in ("fp8", "fp8 about the mean"):
        given = given_by(name, torch.nn.Identity(), x)
        assert given.dtype == torch.bfloat16 and not torch.equal(given, x)
        mean = x.float().mean(-1, keepdim=True) if "mean" in name else 0.0
        off = ((given.float() - x.float()).abs() / (x.float() - mean).abs().clamp(min=0.1)).max()
        assert off < 1 / 8
        torch.testing.assert_close(given.float().norm(dim=-1), x.float().norm(dim=-1), rtol=0.01, atol=0)


def test_weights_are_rounded_about_their_means_as_inputs_are():
    torch.manual_seed(4)
    model = torch.nn.Linear(64, 16, bias=False)
    x, weight = torch.randn(8, 64), model.weight.detach().clone()
    given = given_by("bf16 about the mean", model, x, low=torch.bfloat16)
    assert torch.equal(given, about_mean(x, "bf16") @ about_mean(weight, "bf16").T)
    assert torch.equal(model.weight, weight)


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


EVENED_OUT = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 16, 3)

    def forward(self, x):
        return torch.relu(self.conv(x)).mean((1, 2, 3))

def get_inputs():
    return [torch.rand(16, 4, 96, 96)]

def get_init_inputs():
    return []
"""
STANDS_OUT = "half of axis 0 but for what stands out"


def test_a_few_samples_say_what_all_others_give_where_sums_even_out_but_for_what_stands_out():
    for distribution in ("signed", "needles"):
        assert seen(made(EVENED_OUT), distribution, "bf16").errors[STANDS_OUT] < 1, distribution
        assert seen(made(EVENED_OUT), distribution).errors[STANDS_OUT] > 10, distribution
    assert seen(made(EVENED_OUT), "needles", "bf16").errors["half of axis 0"] > 5


def test_to_look_for_what_stands_out_is_no_shortcut_where_little_else_is_done():
    assert STANDS_OUT not in seen(made(SUM), "needles").errors
    assert STANDS_OUT not in seen(real(1, 94), "needles").errors


def test_a_twin_is_tried_on_every_draw_of_what_is_another_kind_each_time():
    drawn = seen(made(PRODUCT), "mixed").drawn["zeros"]
    assert len(drawn) == len(sharpness.SEEDS) and drawn[0] > sharpness.CLEAR
    assert len(seen(made(PRODUCT), "signed").drawn["zeros"]) == 1
