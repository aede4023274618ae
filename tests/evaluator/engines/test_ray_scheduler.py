"""The scheduler of the engine `ray` in simulated time: whatever is lost when, each kernel has one verdict."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_evaluator.engines.ray.scheduler import Scheduler
from kernel_evaluator.records.rows import Status

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def cluster():
    """The simulation of benchmarks/cluster.py."""
    spec = importlib.util.spec_from_file_location("cluster_simulation", ROOT / "benchmarks/cluster.py")
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def run(cluster, case, assumed, seed=1):
    times = {kind: dict.fromkeys(range(250), 2.0) for kind in cluster.KINDS}
    world = cluster.Simulation(case, times, 10.0, seed)
    boss = Scheduler(world)
    return [verdict.row for verdict in boss.run(world)], boss, world


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cores", [0, 8])
def test_machines_that_die_all_the_time_cost_no_kernel_its_verdict(cluster, monkeypatch, seed, cores):
    hard = replace(
        cluster.ASSUMED, node_lives_h=0.08, hanging_share=0.0, judge_dies_of_kernel=0.0, node_returns_s=60.0
    )
    monkeypatch.setattr(cluster, "ASSUMED", hard)
    case = cluster.Case(name="hard", submissions=8, kernels=250, gpus=16, cores=cores)
    rows, boss, world = run(cluster, case, hard, seed)

    assert 2000 == len(rows) == len(world.waited)
    assert {Status.CORRECT} == {row.status for row in rows}
    assert boss.lost["with_node"] > 0 and boss.lost["alone"] == 0


def test_a_kernel_that_costs_two_judges_is_given_up_and_costs_no_other_its_verdict(cluster, monkeypatch):
    deadly = replace(cluster.ASSUMED, node_lives_h=1e9, judge_dies_of_kernel=0.02)
    monkeypatch.setattr(cluster, "ASSUMED", deadly)
    case = cluster.Case(name="deadly", submissions=4, kernels=250, gpus=16, cores=8)
    rows, boss, world = run(cluster, case, deadly)

    statuses = Counter(row.status for row in rows)
    assert 1000 == len(rows)
    assert statuses[Status.INFRA_ERROR] == sum(kernel.deadly for kernel in world._kernels.values()) > 5
    assert boss.lost["alone"] == 2 * statuses[Status.INFRA_ERROR]


def test_the_table_of_the_page_is_that_of_the_record(cluster):
    record = json.loads((ROOT / "benchmarks/results/cluster.json").read_text())
    table = cluster.table([cluster.Outcome(**case) for case in record["cases"]])
    assert table in (ROOT / "docs/cluster.md").read_text()
