"""Engines that stand by for all tests of a file."""

from __future__ import annotations

import pytest
from evaluating import standing


@pytest.fixture(scope="module")
def measured():
    with standing() as judge:
        yield judge


@pytest.fixture(scope="module")
def unmeasured():
    with standing(measure=False) as judge:
        yield judge
