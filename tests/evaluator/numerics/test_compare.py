"""The numeric policy: what counts as equal, how far off the worst element is, and where it lies."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from kernel_evaluator.numerics import compare as module
from kernel_evaluator.numerics import fused
from kernel_evaluator.numerics.compare import Tolerance, compare, has_non_finite, root_mean_square

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


@pytest.mark.parametrize("bad", [INF, NAN, -1.0])
def test_a_tolerance_that_is_not_finite_is_our_own_fault(bad):
    rounding = torch.zeros(module.MAGNITUDES, dtype=torch.float64)
    rounding[3] = bad
    for said in ({"absolute": bad}, {"relative": bad}, {"rounding": rounding}):
        with pytest.raises(ValueError, match="must be finite"):
            Tolerance(**{"absolute": 1e-4, "relative": 1e-4, **said})


def test_rounding_is_forgiven_where_it_was_seen_and_no_further():
    expected = torch.cat([torch.full((100,), 1000.0), torch.full((100,), 0.5)])
    moved = expected + torch.cat([torch.full((100,), 0.3), torch.zeros(100)])
    forgiving = Tolerance(
        absolute=1e-4, relative=1e-4, rounding=module.rounding_by_magnitude(expected, moved)
    )
    assert not compare(expected, moved, TIGHT).passes
    assert compare(expected, moved, forgiving).passes
    small = expected.clone()
    small[150] += 0.01
    assert compare(expected, small, forgiving).index == 150
    assert not compare(expected, small, forgiving).passes
    assert forgiving.allowed(1000.0) == pytest.approx(0.3, rel=1e-4)
    assert forgiving.allowed(0.5) == pytest.approx(1.5e-4)


def test_what_is_not_finite_in_a_probe_forgives_nothing():
    moved = module.rounding_by_magnitude(of(1, 2, INF, NAN), of(INF, NAN, 1, 1))
    assert moved.abs().max() == 0


def spread(count=20_000):
    """Numbers of which some are 1e20 where most are around a hundred."""
    values = torch.randn(count, generator=torch.Generator().manual_seed(1)) * 100
    values[::400] *= 1e18
    return values


def test_a_few_huge_elements_do_not_excuse_the_others():
    expected = spread()
    tolerance = module.relative_tolerance(expected, 1e-4)
    left_out = torch.where(expected.abs() < 1e10, 0.0, expected)
    assert not compare(expected, left_out, tolerance).passes
    replaceable = (module._float_error(expected, torch.zeros_like(expected), tolerance) <= 1).float().mean()
    assert replaceable < 0.01


def test_an_output_of_one_size_is_compared_by_its_root_mean_square():
    expected = torch.randn(5000)
    tolerance = module.relative_tolerance(expected, 1e-4)
    assert tolerance.absolute == pytest.approx(1e-4 * root_mean_square(expected))
    sparse = torch.where(torch.arange(5000) % 2 == 0, expected.abs(), 0.0)
    assert module.relative_tolerance(sparse, 1e-4).absolute == pytest.approx(1e-4 * root_mean_square(sparse))


def test_what_cancels_beside_larger_elements_is_no_error():
    x = torch.cat([torch.linspace(2, 40, 5000), -torch.linspace(2, 40, 5000)])
    expected = torch.sigmoid(x)  # half of it ends in a tail down to 1e-18
    honest = 1 - 1 / (1 + torch.exp(x))
    assert compare(expected, honest, module.relative_tolerance(expected, 1e-4)).passes
    half = expected.half().float()
    assert not compare(expected, half, module.relative_tolerance(expected, 1e-4)).passes


def test_an_output_of_nothing_but_zeros_has_no_size():
    assert module.relative_tolerance(torch.zeros(8), 1e-4) == TIGHT
    assert module.relative_tolerance(of(1, 2, dtype=torch.int64), 1e-4) == TIGHT


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


@pytest.mark.parametrize("size", [1e20, 3e38, 1e-30])
def test_no_number_is_too_large_or_too_small_to_be_wrong(size):
    expected = torch.full((1000,), size)
    tolerance = module.relative_tolerance(expected, 1e-4)
    assert compare(expected, expected.clone(), tolerance).passes
    assert not compare(expected, -expected, tolerance).passes
    assert not compare(expected, expected * 1.001, tolerance).passes
    assert root_mean_square(expected) == pytest.approx(float(expected[0]))


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


def test_subnormal_numbers_may_be_flushed_to_zero():
    expected = torch.cat([torch.full((1000,), 1e-39), torch.ones(1000)])
    tolerance = module.relative_tolerance(expected, 1e-4)
    assert compare(expected, torch.where(expected < 1, 0.0, 1.0), tolerance).passes
    assert not compare(expected, expected * 1.001, tolerance).passes


ADVERSARIAL = {
    "usual": lambda x: x,
    "1e20": lambda x: x * 1e20,
    "some 1e20": lambda x: torch.where(torch.arange(len(x)) % 400 == 7, x * 1e20, x),
    "1e-30": lambda x: x * 1e-30,
    "one spike": lambda x: torch.where(torch.arange(len(x)) == len(x) // 3, 1e30, x),
    "subnormal": lambda x: x * 1e-40,
    "infinities": lambda x: torch.where(torch.arange(len(x)) % 9 == 2, INF, x),
}


def both_forms_agree(kind, dtype, count, device):
    """Compare the one-pass form with the slow one, on the same values, where the answer is not obvious."""
    drawn = torch.randn(count, generator=torch.Generator().manual_seed(count))
    expected = ADVERSARIAL[kind](drawn).to(dtype)
    moved = (expected.double() * (1 + 1e-3 * drawn.double())).to(dtype)
    rounding = module.rounding_by_magnitude(expected, moved)
    for found in (moved, torch.zeros_like(expected), -expected, expected.roll(1)):
        for tolerance in (
            TIGHT,
            module.relative_tolerance(expected, 1e-4),
            Tolerance(absolute=1e-6, relative=1e-6, rounding=rounding),
        ):
            slow = compare(expected, found, tolerance)
            at = fused.worst_at(
                expected.to(device),
                found.to(device),
                tolerance.absolute,
                tolerance.relative,
                tolerance.rounding,
            )
            error = module._float_error(expected[at : at + 1], found[at : at + 1], tolerance)
            assert error.item() == pytest.approx(slow.worst, rel=1e-9), (kind, tolerance)
    total, strays = fused.square_sum(expected.to(device))
    assert math.sqrt(total / count) == pytest.approx(root_mean_square(expected), rel=1e-9)
    assert (strays > 0) == has_non_finite(expected)


def interpreted():
    """Both forms on a CPU, with the kernels of the one in Triton's own interpreter; run in a new process."""
    for kind in ADVERSARIAL:
        for dtype in (torch.float32, torch.float16):
            for count in (1, 4097):
                both_forms_agree(kind, dtype, count, "cpu")


def test_the_one_pass_forms_agree_with_the_slow_ones_in_triton_s_interpreter():
    pytest.importorskip("triton")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import test_compare; test_compare.interpreted()"
    subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        check=True,
    )


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ADVERSARIAL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_one_pass_forms_on_a_gpu_agree_with_the_slow_ones(kind, dtype):
    for count in (1, 4096, 100_003):
        both_forms_agree(kind, dtype, count, "cuda")


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
