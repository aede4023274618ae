"""How wide tolerances are: what an output's smaller elements may be off by, and what rounding excuses."""

import pytest
import torch
from kernel_evaluator.numerics import allowances
from kernel_evaluator.numerics.compare import compare, relative_tolerance

BASE = 1e-4
COUNT = 1000


def ones_but(*, count: int, value: float) -> torch.Tensor:
    """Elements of size one, and so many that are another size."""
    expected = torch.ones(COUNT)
    expected[:count] = value
    return expected


def passes(expected: torch.Tensor, found: torch.Tensor) -> bool:
    return compare(expected, found, relative_tolerance(expected, BASE)).passes


@pytest.mark.parametrize(("off_by", "right"), [(2.5 * BASE, True), (5 * BASE, False)])
def test_beside_giants_the_others_may_be_off_by_what_is_typical_of_them(off_by, right):
    expected = ones_but(count=5, value=1e6)
    found = expected.clone()
    found[-1] += off_by
    assert passes(expected, found) is right


@pytest.mark.parametrize(("tiny", "right"), [(5, True), (25, False)])
def test_hardly_more_than_one_element_in_a_hundred_may_be_left_out(tiny, right):
    expected = torch.ones(COUNT)
    expected[:tiny] = torch.linspace(1e-5, 2e-5, tiny)
    found = expected.clone()
    found[:tiny] = 0
    assert passes(expected, found) is right


@pytest.mark.parametrize(("units", "right"), [(6, True), (20, False)])
def test_a_difference_of_ones_may_be_off_by_a_few_of_their_last_places(units, right):
    expected = ones_but(count=25, value=1e-9)
    found = expected.clone()
    found[:25] += units * torch.finfo(torch.float32).eps
    assert passes(expected, found) is right


def allowed(moved_by: float, off_by: float) -> bool | None:
    """Whether an error is right where a probe moved the output by so much; None where it says nothing."""
    expected = torch.ones(COUNT)
    (allowance,) = allowances.moved_by([expected], [expected + moved_by], BASE)
    weighed = allowances.weigh(
        expected, expected + off_by, relative_tolerance(expected, BASE), lambda near: (allowance, True)
    )
    return None if weighed is None else weighed[0].passes


@pytest.mark.parametrize(("times", "right"), [(6, True), (12, False)])
def test_a_few_times_what_rounding_does_is_right(times, right):
    assert allowed(10 * BASE, times * 10 * BASE) is right


@pytest.mark.parametrize(("tolerances", "says"), [(100, True), (300, None)])
def test_where_rounding_does_more_than_any_rounding_nothing_can_be_asked(tolerances, says):
    assert allowed(tolerances * BASE, 3 * tolerances * BASE) is says
