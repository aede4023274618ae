"""Inputs: drawn anew from a seed, bent only where they were uniform, never in type, shape or place."""

import pytest
import torch
from kernelbench.inputs import DISTRIBUTIONS, InputSource
from kernelbench.problems import Problem, ProblemSet, apply_sizes, read_sizes

MIXED = """
import torch

rows = 128

def get_inputs():
    targets = torch.randint(0, 10, (rows,))
    mask = torch.rand(rows, 8) < 0.5
    return [torch.rand(rows, 8), torch.randn(rows, 8), targets, mask, 3.5, torch.rand(rows) * 2, torch.rand(4)]

def get_init_inputs():
    return [8, (3, 3), "same", None, 0.5]
"""

UNIFORM, NORMAL, TARGETS, MASK, SCALAR, DOUBLED, FEW = range(7)


def problem(source=MIXED, **overrides):
    return Problem(level=1, problem_id=1, name="1_Mixed", source=source, overrides=overrides)


def source(text=MIXED, precision=torch.float32):
    return InputSource(problem(text), "cpu", precision)


def same(one, other):
    pairs = zip(one, other, strict=True)
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)


def test_what_was_drawn_from_zero_to_one_is_known_and_nothing_else():
    assert [leaf.is_uniform for leaf in source().leaves] == [True, False, False, False, False, False, False]


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
    assert same(plain[NORMAL:], bent[NORMAL:])
    assert (bent[UNIFORM].shape, bent[UNIFORM].dtype) == (plain[UNIFORM].shape, torch.float32)
    assert bent[UNIFORM].isfinite().all() and bent[UNIFORM].is_contiguous()
    assert torch.equal(plain[UNIFORM], bent[UNIFORM]) is (name in ("plain", "upstream"))


def test_the_distributions_are_what_their_names_say():
    drawn = {name: source().draw(3, name)[UNIFORM] for name in DISTRIBUTIONS}
    assert drawn["signed"].min() < -0.9 and drawn["signed"].max() > 0.9
    assert drawn["large"].abs().max() > 90
    assert drawn["small"].max() <= 0.01
    assert 0.75 <= drawn["near_one"].min() < 0.76 and 1.24 < drawn["near_one"].max() <= 1.25
    assert drawn["heavy_tail"].abs().max() > 2
    assert drawn["rows"][0].mean() < drawn["rows"][-1].mean() - 1
    assert drawn["needles"].min() < 0


def test_some_spikes_stand_out_by_far():
    tall = source(MIXED.replace("rows = 128", "rows = 4096")).draw(3, "spikes")[UNIFORM].abs()
    assert tall.max() > 20 and tall.median() < 1


def test_a_nudge_moves_floats_by_about_their_last_digit():
    inputs = source()
    plain, moved = inputs.draw(4), inputs.draw(4, nudge=True)
    change = ((moved[UNIFORM] - plain[UNIFORM]) / plain[UNIFORM]).abs()
    assert 0 < change.max() < 1e-6
    assert torch.equal(plain[TARGETS], moved[TARGETS])


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
    level, problem_id = map(int, key.split("_"))
    inputs = InputSource(ProblemSet().load(level, problem_id).reduced(read_sizes()), "cpu", torch.float32)
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
