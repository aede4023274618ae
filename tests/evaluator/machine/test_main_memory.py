"""How much memory may be used at once, where a container has a bound."""

import os

import pytest
from kernel_evaluator.machine import main_memory

HERE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("bounds", "groups", "expected"),
    [
        ({}, "0::/outer/inner", HERE),
        ({"outer/inner/memory.max": "max"}, "0::/outer/inner", HERE),
        ({"outer/memory.max": "4096", "outer/inner/memory.max": "8192"}, "0::/outer/inner", 4096),
        ({"memory/a/memory.limit_in_bytes": "4096"}, "4:memory:/a\n0::/", 4096),
        ({"cpu,memory/a/memory.limit_in_bytes": "4096"}, "4:cpu,memory:/a\n0::/", 4096),
        ({"memory/b/memory.limit_in_bytes": "4096"}, "4:memory:/a\n0::/", HERE),
        ({"memory/a/memory.limit_in_bytes": str(1 << 63)}, "4:memory:/a\n0::/", HERE),
    ],
)
def test_the_smallest_bound_of_a_group_and_those_above_counts(tmp_path, bounds, groups, expected):
    for name, text in bounds.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    own = tmp_path / "own"
    own.write_text(f"{groups}\n")
    assert main_memory.total_bytes(tmp_path, own) == expected


def test_all_that_runs_at_once_stays_below_what_there_is(monkeypatch):
    monkeypatch.setattr(main_memory, "total_bytes", lambda: 10 << 30)
    assert main_memory.bound_gb(16.0, 0.4, 2) == 2.0
    assert main_memory.bound_gb(1.0, 0.4, 2) == 1.0
    assert main_memory.BUILDS_SHARE + main_memory.JUDGED_SHARE < 1
