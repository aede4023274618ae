"""How many processors may be kept busy, where a container has a quota."""

import os

import pytest
from kernel_evaluator.machine import processors

HERE = float(len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    ("quotas", "expected"),
    [
        ({}, HERE),
        ({"": "max 100000"}, HERE),
        ({"": "50000 100000"}, 0.5),
        ({"outer": "25000 100000", "outer/inner": "max 100000"}, 0.25),
        ({"outer/inner": "not numbers"}, HERE),
    ],
)
def test_the_smallest_quota_of_a_group_and_those_above_counts(tmp_path, quotas, expected):
    (tmp_path / "outer/inner").mkdir(parents=True)
    for name, text in quotas.items():
        (tmp_path / name / "cpu.max").write_text(text)
    own = tmp_path / "cgroup"
    own.write_text("0::/outer/inner\n")
    assert processors.available(tmp_path, own) == expected


@pytest.mark.parametrize(
    ("said", "may_use", "threads"),
    [("3", 2.0, 3), ("", 8.0, 7), ("0", 8.0, 7), ("many", 2.0, 1), ("", 0.5, 1)],
)
def test_a_model_leaves_a_processor_to_the_oracle_unless_told_otherwise(monkeypatch, said, may_use, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    monkeypatch.setattr(processors, "available", lambda: may_use)
    assert processors.for_models() == threads


def test_without_control_groups_the_affinity_counts(tmp_path):
    assert processors.available(tmp_path / "none", tmp_path / "none") == HERE


def test_a_quota_in_the_older_version_of_control_groups_counts_too(tmp_path):
    folder = tmp_path / "cpu,cpuacct/docker/one"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text("-1")
    (folder.parent / "cpu.cfs_quota_us").write_text("75000")
    (folder.parent / "cpu.cfs_period_us").write_text("100000")
    own = tmp_path / "cgroup"
    own.write_text("7:memory:/docker/one\n3:cpu,cpuacct:/docker/one\n")
    assert processors.available(tmp_path, own) == 0.75
