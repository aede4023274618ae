"""The stage `build`: compiles the kernels of submissions ahead of judging. It judges none of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernel_evaluator.problems.jobs import Job
from kernel_evaluator.records.keys import KernelKey

from leaderboard.checks.kernels import is_too_deep
from leaderboard.stages.uses import TOO_DEEP, backends_of

if TYPE_CHECKING:
    from kernel_evaluator.building.builder import Builder, Built


@dataclass(frozen=True, kw_only=True)
class KernelBuild:
    """What came of one kernel. `status` is `built`, `not_needed`, `failed` or `unknown`."""

    entry: str
    key: KernelKey
    backends: tuple[str, ...]
    status: str
    message: str
    log: str
    seconds: float
    cpu_seconds: float
    reused: bool

    @property
    def is_failed(self) -> bool:
        """Whether the kernel's row will be a compile error."""
        return self.status == "failed"


def build_all(
    builder: Builder, jobs: Iterable[tuple[str, Job]], on_build: Callable[[KernelBuild], None]
) -> list[KernelBuild]:
    """Build every job, each with the name of its entry; tell of each as it ends, and give all, sorted."""
    places: dict[Future[Built], list[tuple[str, Job]]] = {}
    found = []
    for entry, job in jobs:
        if is_too_deep(job.source):
            found.append(_outcome(entry, job, _too_deep()))
            on_build(found[-1])
        else:
            places.setdefault(builder.submit(job), []).append((entry, job))
    for future in as_completed(places):
        for entry, job in places[future]:
            found.append(_outcome(entry, job, future.result()))
            on_build(found[-1])
    return sorted(found, key=lambda build: (build.entry, build.key))


def summary_table(builds: Sequence[KernelBuild]) -> str:
    """Lay out, for each entry, how many kernels ended how, and what the building took."""
    from tabulate import tabulate

    return tabulate(list(_summaries(builds)), headers="keys", floatfmt=".1f")


def _too_deep() -> Built:
    from kernel_evaluator.building.builder import BuildStatus, Built

    return Built(status=BuildStatus.FAILED, message=TOO_DEEP.message)


def _outcome(entry: str, job: Job, built: Built) -> KernelBuild:
    return KernelBuild(
        entry=entry,
        key=job.key,
        backends=backends_of(job.source),
        status=str(built.status),
        message=built.message,
        log=built.log,
        seconds=built.seconds,
        cpu_seconds=built.cpu_seconds,
        reused=built.reused,
    )


def _summaries(builds: Sequence[KernelBuild]) -> Iterator[dict[str, object]]:
    for entry in sorted({build.entry for build in builds}):
        own = [build for build in builds if build.entry == entry]
        counts = Counter("from cache" if build.reused else build.status for build in own)
        fresh = [build.seconds for build in own if build.seconds and not build.reused]
        yield {
            "entry": entry,
            "kernels": len(own),
            "built": counts["built"],
            "from cache": counts["from cache"],
            "need none": counts["not_needed"],
            "failed": sum(build.is_failed for build in own),
            "not known": counts["unknown"],
            "s a build": sum(fresh) / len(fresh) if fresh else 0.0,
            "CPU s": sum(build.cpu_seconds for build in own),
        }
