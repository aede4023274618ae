"""The numeric policy: what counts as equal, how far off the worst element is, and where it lies."""

import math

import pytest
import torch
from kernelbench import compare as module
from kernelbench.compare import Tolerance, compare, has_non_finite, root_mean_square

INF, NAN = math.inf, math.nan
TIGHT = Tolerance(absolute=1e-4, relative=1e-4)


def of(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype)


def test_equal_tensors_have_no_error():
    assert compare(of(1, -2, 0), of(1, -2, 0), TIGHT) == module.Comparison(worst=0.0)


def test_the_worst_element_is_named_with_both_values():
    found = compare(of(1, 2, 100, 4), of(1.0001, 2.5, 100.3, 4), TIGHT)
    assert (found.index, found.expected, found.found) == (1, 2.0, 2.5)
    assert found.worst == pytest.approx(0.5 / (1e-4 + 2e-4), rel=1e-5)
    assert not found.passes


def test_the_limit_itself_passes_and_what_lies_beyond_does_not():
    tolerance = Tolerance(absolute=0.25, relative=0.25)
    assert compare(of(2.0), of(2.75), tolerance).worst == 1.0
    assert compare(of(2.0), of(2.75), tolerance).passes
    assert not compare(of(2.0), of(2.75001), tolerance).passes


def test_the_scale_stretches_both_parts_of_the_tolerance():
    for scale in (2.0, 8.0):
        stretched = Tolerance(absolute=1e-4, relative=1e-4, scale=scale)
        narrow = compare(of(3.0), of(3.01), TIGHT).worst
        assert compare(of(3.0), of(3.01), stretched).worst == pytest.approx(narrow / scale, rel=1e-5)


@pytest.mark.parametrize(
    ("expected", "found", "passes"),
    [
        (NAN, NAN, True),
        (INF, INF, True),
        (-INF, -INF, True),
        (INF, -INF, False),
        (INF, NAN, False),
        (NAN, INF, False),
        (INF, 3e38, False),
        (1.0, NAN, False),
        (1.0, INF, False),
        (NAN, 1.0, False),
    ],
)
def test_what_is_not_finite_must_stand_in_the_same_places(expected, found, passes):
    result = compare(of(0, expected, 0), of(0, found, 0), TIGHT)
    assert result.passes is passes
    if not passes:
        assert (result.worst, result.index) == (INF, 1)


def test_a_finite_error_beside_equal_infinities_is_still_seen():
    result = compare(of(INF, 1, NAN), of(INF, 1.5, NAN), TIGHT)
    assert (result.index, result.found) == (1, 1.5)
    assert result.worst == pytest.approx(0.5 / 2e-4, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_integers_are_exact_or_wrong(dtype):
    one, other = of(0, 1, 1, dtype=dtype), of(0, 1, 0, dtype=dtype)
    assert compare(one, one.clone(), TIGHT).worst == 0.0
    wrong = compare(one, other, TIGHT)
    assert (wrong.worst, wrong.index, wrong.expected, wrong.found) == (INF, 2, 1.0, 0.0)


def test_large_integers_are_not_rounded_away():
    assert not compare(of(2**60, dtype=torch.int64), of(2**60 + 1, dtype=torch.int64), TIGHT).passes


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_compared_in_full(dtype):
    wide = Tolerance(absolute=1e-2, relative=1e-2)
    assert compare(of(60000, 1, dtype=dtype), of(60000, 1, dtype=dtype), wide).worst == 0.0
    assert not compare(of(1, dtype=dtype), of(1.5, dtype=dtype), wide).passes


def test_scalars_empty_tensors_and_any_shape_can_be_compared():
    assert compare(torch.tensor(2.0), torch.tensor(2.0), TIGHT).passes
    assert compare(torch.empty(0, 3), torch.empty(0, 3), TIGHT).passes
    assert compare(torch.ones(2, 3, 4), torch.ones(4, 3, 2).permute(2, 1, 0), TIGHT).passes


def test_what_is_compared_in_pieces_gives_the_same_as_in_one(monkeypatch):
    expected = torch.linspace(-5, 5, 1001)
    found = expected.clone()
    found[[3, 640]] += torch.tensor([0.01, 0.5])
    whole = compare(expected, found, TIGHT)
    norm = root_mean_square(expected)
    monkeypatch.setattr(module, "_CHUNK", 64)
    assert compare(expected, found, TIGHT) == whole
    assert whole.index == 640
    assert root_mean_square(expected) == pytest.approx(norm)


def test_neither_side_is_changed():
    expected, found = of(1, INF, 2), of(1, INF, 3)
    compare(expected, found, TIGHT)
    assert expected.tolist() == [1, INF, 2] and found.tolist() == [1, INF, 3]


def test_the_root_mean_square_leaves_out_what_is_not_finite():
    assert root_mean_square(of(3, 4)) == pytest.approx(math.sqrt(12.5))
    assert root_mean_square(of(3, NAN, INF, 4)) == pytest.approx(math.sqrt(25 / 4))
    assert root_mean_square(torch.empty(0)) == 0.0
    assert root_mean_square(of(1, 2, dtype=torch.int64)) == 0.0


@pytest.mark.parametrize(("value", "is_there"), [(NAN, True), (INF, True), (-INF, True), (3e38, False)])
def test_what_is_not_finite_is_found(value, is_there):
    assert has_non_finite(of(1, value)) is is_there
    assert not has_non_finite(of(1, dtype=torch.int64))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("count", [1, 8191, 8192, 100_003])
def test_the_one_pass_forms_on_a_gpu_say_what_the_slow_ones_say(dtype, count):
    expected = torch.randn(count, device="cuda").to(dtype)
    found = expected.clone()
    found[count // 2] += 3
    for odd in (None, NAN, INF):
        if odd is not None:
            expected[0] = found[0] = odd
        fast, slow = compare(expected, found, TIGHT), compare(expected.cpu(), found.cpu(), TIGHT)
        assert fast.index == slow.index
        assert fast.worst == pytest.approx(slow.worst, rel=1e-3)
        assert root_mean_square(expected) == pytest.approx(root_mean_square(expected.cpu()), rel=1e-3)
        assert has_non_finite(expected) == has_non_finite(expected.cpu())


@pytest.mark.gpu
def test_a_misplaced_nan_on_a_gpu_is_an_infinite_error():
    expected = torch.ones(20_000, device="cuda")
    found = expected.clone()
    found[12_345] = NAN
    result = compare(expected, found, TIGHT)
    assert (result.worst, result.index) == (INF, 12_345)
