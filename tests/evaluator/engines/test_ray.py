"""The engine `ray` on a real cluster of this host: nodes die, and every kernel gets the verdict it gets here."""

from __future__ import annotations

import os
import random
import threading
import time

import pytest

pytest.importorskip("ray", reason="ray is not installed: pip install '.[ray]'")

from compiling import HEAD, TINY
from evaluating import PROBLEM, RIGHT, cpu_settings, jobs_of, kernel
from kernel_evaluator.engines.local import LocalEngine
from kernel_evaluator.engines.ray.engine import RayEngine
from kernel_evaluator.engines.ray.nodes import Board
from kernel_evaluator.engines.ray.remote import DeviceHeldError, hold
from ray_cluster import machines

from leaderboard.stages.engines import EvaluationError, open_place

KERNELS = (
    RIGHT,
    RIGHT.replace("min=0", "min=0.5"),
    kernel("raise ValueError('no')"),
    kernel("os._exit(3)"),
)
BUILT = f"{TINY}{RIGHT}"
NOT_COMPILED = (
    f"{HEAD}ext = load_inline(name='bad', cpp_sources='nonsense', no_implicit_headers=True)\n{RIGHT}"
)


def some_jobs(count):
    sources = [f"{KERNELS[at % len(KERNELS)]}\n# {at}\n" for at in range(count)]
    return jobs_of(*sources, BUILT, NOT_COMPILED, problem=PROBLEM)


def settings():
    return cpu_settings(measure=False, trials=1)


@pytest.mark.timeout(600)
def test_nodes_that_are_killed_cost_no_kernel_its_verdict(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELBENCH_CACHE", str(tmp_path))
    jobs, found, told = some_jobs(24), {}, []
    with machines(nodes=2, builders=1) as there:
        engine = RayEngine(Board(gpu="CPU"), progress=lambda name, facts: told.append(name))
        for verdict in engine.run(jobs, settings()):
            assert verdict.row.key not in found, "twice"
            found[verdict.row.key] = verdict
            if len(found) in (5, 15):
                there.kill(random.choice(there.nodes), with_workers=len(found) == 5)
                there.nodes.append(there.add())
        monkeypatch.setattr("kernel_evaluator.engines.ray.engine.evaluator_sha256", lambda: "0" * 64)
        with pytest.raises(EvaluationError, match="install the same version on all machines"):
            list(open_place("ray", "cpu").engine.run(jobs, settings()))
        monkeypatch.undo()
    local = {each.row.key: each for each in LocalEngine().run(jobs, settings())}
    assert {key: each.row.status for key, each in local.items()} == {
        key: each.row.status for key, each in found.items()
    }
    assert 1 == told.count("built"), "on the machine that is left to builds"
    for key, each in found.items():
        assert local[key].environment == each.environment, "the walls too"


def test_a_device_is_held_until_its_last_holder_is_gone(tmp_path):
    first = hold("gpu", folder=tmp_path)
    with pytest.raises(DeviceHeldError, match=r"gpu is held by another process for 0\.3 s"):
        hold("gpu", 0.3, folder=tmp_path)
    hold("another", 0.3, folder=tmp_path)
    started = time.monotonic()
    threading.Timer(0.5, os.close, (first,)).start()
    hold("gpu", 20, folder=tmp_path)
    assert time.monotonic() - started > 0.3
