"""Secret draws: what is dealt, and that no other module draws."""

import re

from hypothesis import given
from hypothesis import strategies as st
from kernel_evaluator.records.places import PACKAGE
from kernel_evaluator.secret_draws import dealt


@given(calls=st.integers(1, 256), reference_calls=st.integers(1, 256), count=st.integers(1, 6))
def test_every_call_is_dealt_once_and_the_reference_runs_some_of_each_round(calls, reference_calls, count):
    reference_calls = min(calls, reference_calls)
    count = min(count, reference_calls)
    parts = dealt(calls, reference_calls, count)
    assert len(parts) == count
    assert sorted(at for candidate, _ in parts for at in candidate) == list(range(calls))
    for candidate, reference in parts:
        assert reference == [at for at in candidate if at in reference]
        assert len(reference) >= 1
    assert abs(sum(len(reference) for _, reference in parts) - reference_calls) < max(count, 2)


def test_a_reference_as_fast_as_the_candidate_runs_every_call_in_the_same_order():
    for candidate, reference in dealt(9, 9, 4):
        assert reference == candidate


def test_no_other_module_draws_a_secret():
    draws = re.compile(
        r"import secrets|SystemRandom|os\.urandom|os\.getrandom|uuid4|from random|^import random",
        re.MULTILINE,
    )
    drawing = {path.name for path in PACKAGE.rglob("*.py") if draws.search(path.read_text("utf-8"))}
    by_the_kernels_digest, which_cores = "other_shapes.py", "processes.py"
    assert drawing == {"secret_draws.py", by_the_kernels_digest, which_cores}
