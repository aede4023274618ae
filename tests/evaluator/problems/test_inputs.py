"""Inputs: drawn anew from a seed, bent at their source if uniform, never in type, shape, place or structure."""

import ast

import pytest
import torch
from kernel_evaluator.problems.inputs import DISTRIBUTIONS, NUDGE, InputSource
from kernel_evaluator.problems.problem_set import Problem, ProblemSet, apply_sizes, read_sizes

MIXED = """
import torch

rows = 128

def get_inputs():
    targets = torch.randint(0, 10, (rows,))
    mask = torch.randn(rows, 8) < 0.5
    normal, few, doubled = torch.randn(rows, 8), torch.rand(4), torch.rand(rows) * 2
    return [torch.rand(rows, 8), normal, targets, mask, 3.5, few, doubled]

def get_init_inputs():
    return [8, (3, 3), "same", None, 0.5]
"""

UNIFORM, NORMAL, TARGETS, MASK, SCALAR, FEW, DOUBLED = range(7)


def problem(source=MIXED, **overrides):
    return Problem(level=1, problem_id=1, name="1_Mixed", source=source, overrides=overrides)


def source(text=MIXED, precision=torch.float32):
    return InputSource(problem(text), "cpu", precision)


def same(one, other):
    pairs = zip(one, other, strict=True)
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)


def test_leaves_say_type_shape_size_and_scalars():
    leaves = source(precision=torch.bfloat16).leaves
    assert (leaves[UNIFORM].dtype, leaves[UNIFORM].shape, leaves[UNIFORM].nbytes) == (
        torch.bfloat16,
        (128, 8),
        2048,
    )
    assert (leaves[TARGETS].dtype, leaves[MASK].dtype) == (torch.int64, torch.bool)
    assert (leaves[SCALAR].scalar, leaves[SCALAR].nbytes) == (3.5, 0)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_same_seed_gives_the_same_inputs_and_another_seed_others(name):
    inputs = source()
    one, again, other = inputs.draw(11, name), inputs.draw(11, name), inputs.draw(12, name)
    assert same(one, again)
    assert not torch.equal(one[UNIFORM], other[UNIFORM])
    assert not torch.equal(one[TARGETS], other[TARGETS])


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_only_uniform_inputs_are_bent_and_keep_their_kind(name):
    inputs = source()
    plain, bent = inputs.draw(5, "plain"), inputs.draw(5, name)
    assert bent[NORMAL].std() < 1.2 and 0 <= bent[FEW].min() and bent[FEW].max() <= 1
    assert (bent[UNIFORM].shape, bent[UNIFORM].dtype) == (plain[UNIFORM].shape, torch.float32)
    assert bent[UNIFORM].isfinite().all() and bent[UNIFORM].is_contiguous()
    assert torch.equal(plain[UNIFORM], bent[UNIFORM]) is (name in ("plain", "upstream"))


def test_what_is_made_of_uniform_numbers_is_bent_with_them():
    assert source().draw(5, "large")[DOUBLED].abs().max() > 150


def reduced(key):
    level, problem_id = map(int, key.split("_"))
    return ProblemSet().load(level, problem_id).reduced(read_sizes())


def real(key):
    return InputSource(reduced(key), "cpu", torch.float32)


@pytest.mark.parametrize("name", [name for name in DISTRIBUTIONS if name != "plain"])
def test_what_a_problem_makes_of_its_inputs_stays(name):
    for key in ("1_13", "1_14", "1_15", "1_98"):
        assert name in real(key).distributions()
    assert all(torch.equal(each, each.T) for each in real("1_13").draw(2, name))
    assert all(torch.equal(each, each.triu()) for each in real("1_14").draw(2, name))
    assert all(torch.equal(each, each.tril()) for each in real("1_15").draw(2, name))
    assert all((each.sum(-1) - 1).abs().max() < 1e-4 for each in real("1_98").draw(2, name))


def test_the_distributions_are_what_their_names_say():
    drawn = {name: source().draw(3, name)[UNIFORM] for name in DISTRIBUTIONS}
    assert drawn["signed"].min() < -0.9 and drawn["signed"].max() > 0.9
    assert drawn["large"].abs().max() > 90
    assert drawn["small"].max() <= 0.01
    assert 0.24 < (drawn["near_one"] - 1).abs().max() <= 0.25
    assert drawn["heavy_tail"].abs().max() > 2
    assert drawn["rows"][0].mean() < drawn["rows"][-1].mean() - 1
    others = drawn["one_sided"]
    assert others.min() >= 0 and others.max() < 1
    for bits in (13, 16):
        rounded = (others.view(torch.int32) + (1 << (bits - 1)) >> bits << bits).view(torch.float32)
        assert (rounded <= others).all(), "rounding goes one way, to 10 bits of fraction as to 7"


def test_a_few_needles_weigh_as_much_as_all_other_elements():
    values = source(MIXED.replace("rows = 128", "rows = 4096")).draw(3, "needles")[UNIFORM].view(-1)
    squares = values.square().sort().values
    assert 0.3 < squares[-4:].sum() / squares[:-4].sum() < 30


def test_whoever_reads_one_in_eight_mostly_sees_none_of_a_few_needles_that_weigh_as_much_as_the_others():
    unseen = 0
    for seed in range(20):
        values = (
            source(MIXED.replace("rows = 128", "rows = 4096")).draw(seed, "few_needles")[UNIFORM].view(-1)
        )
        squares = values.square().sort().values
        assert 0.3 < squares[-4:].sum() / squares[:-4].sum() < 30 and squares[-5] <= 1
        unseen += bool(values[::8].abs().max() <= 1)
    assert unseen > 5


def test_no_mixture_is_like_another():
    drawn = [source().draw(seed, "mixed")[UNIFORM] for seed in range(20)]
    widths = sorted(float(each.std()) for each in drawn)
    assert widths[-1] > 3 * widths[0]
    assert {bool((each < 0).any()) for each in drawn} == {True}


def test_some_spikes_stand_out_by_far():
    tall = source(MIXED.replace("rows = 128", "rows = 4096")).draw(3, "spikes")[UNIFORM].abs()
    assert tall.max() > 20 and tall.median() < 1


def moved_by_a_nudge(inputs, name):
    """The largest relative change of any float that a nudge makes; other arguments must stay the same."""
    largest = 0.0
    for one, other in zip(inputs.draw(4, name), inputs.draw(4, name, nudge=True), strict=True):
        if isinstance(one, torch.Tensor) and one.is_floating_point():
            assert torch.equal(one == 0, other == 0)
            change = (other - one).div_(one).abs_()  # numbers so near to each other have an exact difference
            change.masked_fill_(one.abs() <= 1e-35, 0.0)  # these have fewer digits
            largest = max(largest, change.max().item())
        else:
            assert same([one], [other])
    return largest


def makers(key):
    """What a problem's inputs are made by: all but its model, the model's arguments, imports and words."""
    parts = ast.parse(reduced(key).sized_source).body
    names = ("Model", "get_init_inputs")
    kept = [part for part in parts if not isinstance(part, ast.Expr | ast.Import | ast.ImportFrom)]
    return "".join(ast.unparse(part) for part in kept if getattr(part, "name", "") not in names)


@pytest.mark.parametrize("level", [1, 2, 3, 4])
@pytest.mark.timeout(600)
def test_a_nudge_moves_floats_of_every_problem_by_about_their_last_digit_and_changes_nothing_else(level):
    """Also with two and more inputs, and whatever other random numbers a distribution takes.

    Of problems whose inputs are made alike one is enough.
    """
    unlike = {makers(f"{level}_{problem_id}"): problem_id for problem_id in ProblemSet().ids(level)}
    for problem_id in unlike.values():
        inputs = real(f"{level}_{problem_id}")
        for name in inputs.distributions():
            largest = moved_by_a_nudge(inputs, name)
            assert largest <= NUDGE + 2**-23, (problem_id, name)
            assert largest > 0 or inputs.distributions() == ["upstream"], (problem_id, name)


def test_a_nudge_is_worth_a_few_roundings_and_no_more():
    """A kernel may round in another order, a few times in a row: as far, and no farther, is a probe to go."""
    last_place = torch.finfo(torch.float32).eps
    assert 2 * last_place < moved_by_a_nudge(source(), "signed") < 8 * last_place


def test_integers_and_masks_stay_what_they_are_in_half_precision():
    values = source(precision=torch.float16).draw(1, "large")
    assert [v.dtype for v in values if isinstance(v, torch.Tensor)] == [
        torch.float16,
        torch.float16,
        torch.int64,
        torch.bool,
        torch.float16,
        torch.float16,
    ]


def test_no_distribution_but_upstreams_where_nothing_is_uniform():
    inputs = source(
        "import torch\ndef get_inputs(): return [torch.randn(100)]\ndef get_init_inputs(): return []\n"
    )
    assert inputs.distributions() == ["upstream"]
    assert inputs.init_arguments() == "[]"


def test_constructor_arguments_are_a_literal_or_else_the_source_that_makes_them():
    assert source().init_arguments() == "[8, (3, 3), 'same', None, 0.5]"
    objects = MIXED.replace("None, 0.5]", "object()]")
    assert source(objects).init_arguments() == objects


@pytest.mark.parametrize("key", ["1_5", "1_93", "1_95", "1_100", "2_66", "3_33"])
def test_real_problems_keep_their_odd_inputs(key):
    inputs = real(key)
    types = [leaf.dtype for leaf in inputs.leaves]
    odd = {"1_5": None, "1_93": torch.bool, "1_95": torch.int64}
    assert odd.get(key, torch.float32) in types
    for value, leaf in zip(inputs.draw(1, "signed"), inputs.leaves, strict=True):
        if leaf.dtype is not None:
            assert (value.dtype, tuple(value.shape)) == (leaf.dtype, leaf.shape)


def test_sizes_are_set_where_they_are_assigned_so_that_what_hangs_on_them_follows():
    text = "rows = 4\nwide = rows * 2\nnames = (\n    1,\n    2,\n)\n"
    names: dict = {}
    exec(apply_sizes(text, {"rows": 7, "names": (3,)}), names)
    assert (names["rows"], names["wide"], names["names"]) == (7, 14, (3,))


def test_a_size_that_the_problem_does_not_have_is_an_error():
    with pytest.raises(ValueError, match=r"no module-level constant \['columns'\]"):
        apply_sizes("rows = 4\n", {"columns": 3})


def test_a_reduced_problem_is_another_problem():
    assert problem(rows=64).sha256 != problem().sha256
    assert InputSource(problem(rows=64), "cpu", torch.float32).leaves[UNIFORM].shape == (64, 8)
