"""The server's figures as Prometheus reads them."""

from __future__ import annotations

import resource
from pathlib import Path

from leaderboard.serve.judgements import Judgements


def as_prometheus(judgements: Judgements, *, deaths: int, workers: int) -> str:
    """Write the figures in Prometheus's text format."""
    (counts, seconds), gauges = judgements.totals(), judgements.gauges()
    by_status = {name.partition(":")[2]: n for name, n in counts.items() if name.startswith("status:")}
    parts = [
        _metric("kbl_judgements_received_total", "counter", "Judgements taken in.", counts["received"]),
        _metric("kbl_judgements_cancelled_total", "counter", "Judgements cancelled.", counts["cancelled"]),
        _labelled("kbl_judgements_done_total", "Judgements done, by status.", by_status),
        _metric("kbl_queue_length", "gauge", "Judgements that wait.", gauges["queued"]),
        _metric("kbl_running", "gauge", "Judgements in a batch that is being judged.", gauges["running"]),
        _metric("kbl_kept", "gauge", "Finished judgements that can still be looked up.", gauges["kept"]),
        _metric("kbl_workers", "gauge", "Devices whose worker is alive.", workers),
        _metric("kbl_worker_deaths_total", "counter", "Batches whose process died or never ran.", deaths),
        _metric("kbl_waiting_seconds_total", "counter", "Seconds spent waiting.", seconds["waiting"]),
        _metric("kbl_judging_seconds_total", "counter", "Seconds spent judging.", seconds["judging"]),
        _metric("process_resident_memory_bytes", "gauge", "Memory of the server.", resident_bytes()),
    ]
    return "".join(parts)


def resident_bytes() -> int:
    """Memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize()


def _metric(name: str, kind: str, said: str, value: float) -> str:
    return f"# HELP {name} {said}\n# TYPE {name} {kind}\n{name} {value:.10g}\n"


def _labelled(name: str, said: str, values: dict[str, int]) -> str:
    lines = "".join(f'{name}{{status="{status}"}} {count}\n' for status, count in sorted(values.items()))
    return f"# HELP {name} {said}\n# TYPE {name} counter\n{lines}"
