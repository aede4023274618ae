"""The server's figures as Prometheus reads them, by its own client library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from leaderboard.serve.judgements import Judgement, Judgements
from leaderboard.serve.memory import VerdictMemory

BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Bounds by which judgements are counted by how long they took."""
FORMAT = "text/plain; version=1.0.0; charset=utf-8"

Counts = Callable[[], Mapping[str, int]]


class Metrics:
    """The registry of one server; what it tells is read when it is asked."""

    def __init__(self, judgements: Judgements, memory: VerdictMemory | None, workers: Counts) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Figures(judgements, memory, workers))
        ProcessCollector(registry=self._registry)
        self._seconds = Histogram(
            "kbl_judgement_seconds",
            "Seconds from a request to its verdict, by whether it was remembered.",
            ["remembered"],
            buckets=BUCKETS_S,
            registry=self._registry,
        )

    def note(self, item: Judgement) -> None:
        """Count a judgement that is done by how long it took."""
        taken_s = (item.finished or item.created) - item.created
        self._seconds.labels(remembered=str(item.remembered).lower()).observe(taken_s)

    def text(self) -> bytes:
        """Write all figures in Prometheus's text format."""
        return generate_latest(self._registry)


class _Figures(Collector):
    def __init__(self, judgements: Judgements, memory: VerdictMemory | None, workers: Counts) -> None:
        self._judgements, self._memory, self._workers = judgements, memory, workers

    def collect(self) -> Iterator[Metric]:
        counts, seconds = self._judgements.totals()
        yield CounterMetricFamily("kbl_judgements_received", "Judgements taken in.", counts["received"])
        yield CounterMetricFamily("kbl_judgements_cancelled", "Judgements cancelled.", counts["cancelled"])
        yield CounterMetricFamily(
            "kbl_judgements_remembered", "Judged before, answered at once.", counts["remembered"]
        )
        yield _labelled(
            "kbl_judgements_done", "Judgements done, by status.", "status", _after("status:", counts)
        )
        yield _labelled(
            "kbl_judgements_by_key", "Judgements taken in, by key.", "key", _after("key:", counts)
        )
        yield CounterMetricFamily("kbl_waiting_seconds", "Seconds spent waiting.", seconds["waiting"])
        yield CounterMetricFamily("kbl_judging_seconds", "Seconds spent judging.", seconds["judging"])
        gauges = self._judgements.gauges()
        yield GaugeMetricFamily("kbl_queue_length", "Judgements that wait.", gauges["queued"])
        yield GaugeMetricFamily("kbl_running", "Judgements in a batch at work.", gauges["running"])
        yield GaugeMetricFamily("kbl_kept", "Finished judgements that can be looked up.", gauges["kept"])
        workers = self._workers()
        yield GaugeMetricFamily("kbl_workers", "Devices whose worker is alive.", workers["alive"])
        yield CounterMetricFamily("kbl_worker_starts", "Judging processes started.", workers["starts"])
        yield CounterMetricFamily(
            "kbl_worker_deaths", "Batches whose process died or never ran.", workers["deaths"]
        )
        failures = self._memory.failures if self._memory else 0
        yield CounterMetricFamily("kbl_memory_failures", "Times that the memory could not be used.", failures)


def _after(prefix: str, counts: Mapping[str, int]) -> dict[str, int]:
    return {name.removeprefix(prefix): n for name, n in counts.items() if name.startswith(prefix)}


def _labelled(name: str, said: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, said, labels=[label])
    for value, count in sorted(values.items()):
        family.add_metric([value], count)
    return family
