"""From which processor cores both sides launch, and how long one is kept."""

import os
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from kernel_evaluator.stand import cores


@pytest.fixture
def machine(monkeypatch):
    """A machine of so many cores, each with its sibling; says to which of them the oracle keeps in the end."""

    def of(count: int, sibling: Callable[[int], int]) -> set[int]:
        kept = set(range(count))

        def keep(_: int, wanted: set[int]) -> None:
            kept.intersection_update(wanted)

        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(count)))
        monkeypatch.setattr(os, "sched_setaffinity", keep)
        monkeypatch.setattr(cores, "_siblings", lambda core: {sibling(core), core})
        return kept

    cores.launch_cores.cache_clear()
    yield of
    cores.launch_cores.cache_clear()


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(("count", "launch"), [(16, 8), (64, 8), (12, 6), (8, 4), (6, 2), (4, 2)])
def test_half_of_the_cores_are_for_launches_and_the_oracle_keeps_off_them_and_their_siblings(
    machine, count, launch, split
):
    """Siblings are numbered one after the other, or by halves."""

    def sibling(core: int) -> int:
        return (core + count // 2) % count if split else core ^ 1

    kept = machine(count, sibling)
    chosen = cores.launch_cores("cuda")
    assert (len(chosen), len(kept)) == (launch, count - launch)
    assert not kept & {*chosen, *map(sibling, chosen)}


def test_cores_with_many_threads_each_leave_the_oracle_some_all_the_same(machine, monkeypatch):
    kept = machine(8, lambda core: core)
    monkeypatch.setattr(cores, "_siblings", lambda core: set(range(8)))
    assert cores.launch_cores("cuda") == (4, 5, 6, 7)
    assert kept == {0, 1, 2, 3}


@pytest.mark.parametrize(("count", "device"), [(3, "cuda"), (16, "cpu")])
def test_where_cores_are_few_or_there_is_no_gpu_nobody_is_kept_to_any(machine, count, device):
    kept = machine(count, lambda core: core ^ 1)
    assert cores.launch_cores(device) == ()
    assert kept == set(range(count))


@pytest.fixture
def clock(monkeypatch):
    """The time, in seconds, as the choice of a core sees it."""
    there = SimpleNamespace(now=50.0)
    monkeypatch.setattr(cores.time, "monotonic", lambda: there.now)
    return there


def core_of(clock: SimpleNamespace, chosen: list[float]) -> Callable[..., int | None]:
    """A core that is renewed, on a reference that notes when it was asked; gives the core."""

    def ask(*_: object, **__: object) -> SimpleNamespace:
        chosen.append(clock.now)
        return SimpleNamespace(count=3, text="")

    core = cores.LaunchCore("cuda", SimpleNamespace(ask=ask))
    candidate = SimpleNamespace(process=SimpleNamespace(paused=nullcontext))

    def renew(**how: float) -> int | None:
        core.renew(candidate, **how)
        return core.number

    return renew


def test_a_core_is_chosen_anew_after_a_while_and_not_before(machine, clock):
    machine(16, lambda core: core ^ 1)
    chosen: list[float] = []
    renew = core_of(clock, chosen)
    for clock.now in (50.0, 50.05, 50.2):
        assert renew() == 3
    assert chosen == [50.0, 50.2]


def test_within_a_round_a_core_is_chosen_anew_only_where_the_round_takes_long(machine, clock):
    machine(16, lambda core: core ^ 1)
    chosen: list[float] = []
    renew = core_of(clock, chosen)
    renew()
    for clock.now in (50.33, 50.42):
        renew(began=50.25)
    assert chosen == [50.0, 50.42]
