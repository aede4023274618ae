"""From which processor cores both sides launch, and how long one is kept."""

import os
from types import SimpleNamespace

import pytest
from kernelbench import batches, cores


@pytest.fixture
def machine(monkeypatch):
    """A machine of so many cores; says to which of them the oracle keeps in the end."""

    def of(count: int) -> set[int]:
        kept = set(range(count))
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(count)))
        monkeypatch.setattr(cores, "_siblings", lambda core: {core ^ 1, core})
        monkeypatch.setattr(
            os, "sched_setaffinity", lambda _, wanted: (kept.clear(), kept.update(wanted)), raising=True
        )
        return kept

    cores.launch_cores.cache_clear()
    yield of
    cores.launch_cores.cache_clear()


@pytest.mark.parametrize(
    ("count", "launch", "oracle"), [(16, 8, 8), (64, 8, 56), (8, 4, 4), (6, 3, 2), (4, 2, 2)]
)
def test_half_of_the_cores_are_for_launches_and_the_oracle_keeps_off_them_and_their_siblings(
    machine, count, launch, oracle
):
    kept = machine(count)
    chosen = cores.launch_cores("cuda")
    assert (len(chosen), len(kept)) == (launch, oracle)
    assert not kept & {*chosen, *(core ^ 1 for core in chosen)}


@pytest.mark.parametrize(("count", "device"), [(3, "cuda"), (16, "cpu")])
def test_where_cores_are_few_or_there_is_no_gpu_nobody_is_kept_to_any(machine, count, device):
    kept = machine(count)
    assert cores.launch_cores(device) == ()
    assert kept == set(range(count))


def test_a_core_is_chosen_anew_after_a_while_and_not_before(monkeypatch):
    clock = SimpleNamespace(now=50.0)
    bench = SimpleNamespace(core_chosen_at=50.0)
    chosen: list[float] = []
    monkeypatch.setattr(batches.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(batches, "choose_core", lambda *_: chosen.append(clock.now))
    for clock.now in (50.0, 50.05, 50.2):
        batches.renew_core(bench, SimpleNamespace())
    assert chosen == [50.2]
