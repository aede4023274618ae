"""What crosses the border to a remote container: JSON text both ways. Nothing that comes back is believed.

`pack_*` writes, `read_*` reads; the reader of an answer refuses whatever is not exactly what was asked for.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from kernel_evaluator.machine.figures import gpus
from kernel_evaluator.problems.jobs import Job, Settings, Verdict
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Environment, Row
from kernel_evaluator.records.version import evaluator_sha256

MAX_REQUEST_BYTES = 2 * 1024 * 1024 - 4096
"""What Modal carries in a call itself, less what its client adds."""
MAX_ANSWER_BYTES = 2 * 1024 * 1024
MAX_SECONDS_CLAIMED = 24 * 3600.0


class RefusedAnswerError(Exception):
    """An answer that is not one: malformed, too large, or about something else. The message says what."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """What a container says: verdicts and the seconds it was busy, or the fault that kept it from judging."""

    verdicts: tuple[Verdict, ...] = ()
    seconds: float = 0.0
    fault: str = ""


def pack_request(
    jobs: Sequence[Job], settings: Settings, builds: Mapping[str, Mapping[str, str]] | None = None
) -> str:
    """Write jobs and settings, with the builds that were made in advance, as compressed JSON in base64."""
    listed = [
        {
            "key": str(job.key),
            "source": job.source,
            "problem": {
                "level": job.problem.level,
                "problem_id": job.problem.problem_id,
                "name": job.problem.name,
                "source": job.problem.source,
                "overrides": dict(job.problem.overrides),
            },
        }
        for job in jobs
    ]
    values = {"settings": dataclasses.asdict(settings), "jobs": listed, "builds": builds or {}}
    return base64.b64encode(zlib.compress(json.dumps(values).encode("ascii"))).decode("ascii")


def read_request(text: str) -> tuple[list[Job], Settings]:
    """Read what `pack_request` wrote. The sender is trusted."""
    data = _request(text)
    settings = dict(data["settings"])
    settings["switched_off"] = tuple(settings["switched_off"])
    jobs = [
        Job(key=KernelKey.parse(item["key"]), source=item["source"], problem=Problem(**item["problem"]))
        for item in data["jobs"]
    ]
    return jobs, Settings(**settings)


def read_builds_of(text: str) -> dict[str, dict[str, str]]:
    """Read the builds that came with a request."""
    builds: dict[str, dict[str, str]] = _request(text)["builds"]
    return builds


def _request(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text)))


def pack_answer(answer: Answer) -> str:
    """Write an answer as JSON. Figures that are not finite become null: JSON has none."""
    verdicts = [
        {"row": verdict.row.to_json(), "environment": dataclasses.asdict(verdict.environment)}
        for verdict in answer.verdicts
    ]
    return json.dumps(_finite({"verdicts": verdicts, "seconds": answer.seconds, "fault": answer.fault}))


_FIGURES = (
    "trials_passed",
    "trials_asked",
    "worst_error",
    "speedup",
    "second_clock_ms",
    "clock_disagreement",
    "gpu_seconds",
    "cpu_seconds",
    "peak_memory_gb",
)


def read_answer(text: object, jobs: Sequence[Job], gpu: str) -> Answer:
    """Read an answer about exactly these jobs on that GPU model; raise RefusedAnswerError otherwise."""
    data = _object(strict_json(text, RefusedAnswerError))
    fault = data.get("fault", "")
    if not isinstance(fault, str) or set(data) - {"verdicts", "seconds", "fault"}:
        raise RefusedAnswerError("an answer has verdicts, seconds and fault alone")
    if fault:
        return Answer(fault=fault[:500])
    listed = data.get("verdicts")
    if not isinstance(listed, list):
        raise RefusedAnswerError("verdicts must be a list")
    verdicts = tuple(_verdict(item) for item in listed)
    _check_keys(verdicts, jobs)
    by_key = {job.key: job for job in jobs}
    for verdict in verdicts:
        _check_types(verdict)
        _check_verdict(verdict, by_key[verdict.row.key], gpu)
    return Answer(verdicts=verdicts, seconds=_seconds(data.get("seconds")))


def strict_json(text: object, refusal: type[Exception]) -> Any:
    """Read a text of bounded size as strict JSON; raise `refusal` where it is none."""
    if not isinstance(text, str):
        raise refusal(f"an answer must be text, got {type(text).__name__}")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_ANSWER_BYTES:
        raise refusal(f"an answer must be at most {MAX_ANSWER_BYTES:,} bytes, got {len(text):,}")
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_float)
    except (ValueError, RecursionError) as error:
        raise refusal(f"an answer must be strict JSON: {str(error)[:200]}") from error


def _verdict(item: object) -> Verdict:
    data = _object(item)
    try:
        environment = dict(_object(data["environment"]))
        environment["isolation"] = tuple(environment.get("isolation", ()))
        return Verdict(row=Row.from_json(_object(data["row"])), environment=Environment(**environment))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RefusedAnswerError(f"not a verdict: {type(error).__name__} {str(error)[:200]}") from error


def _check_types(verdict: Verdict) -> None:
    """Require of every field that a figure is a figure and a text is a text: records do not check that."""
    row = verdict.row
    figures = [getattr(row, name) for name in _FIGURES] + list(row.speedup_ci95 or ())
    for timing in (row.runtime_ms, row.reference_ms):
        figures += vars(timing).values() if timing else ()
    texts = [row.environment, row.finished_at, *row.labels, *_texts(verdict.environment)]
    texts += vars(row.failure).values() if row.failure else ()
    if not all(value is None or _is_figure(value) for value in figures):
        raise RefusedAnswerError(f"{row.key}: a figure must be a number")
    if not all(isinstance(text, str) for text in texts):
        raise RefusedAnswerError(f"{row.key}: a text must be a string")
    for name in ("evidence", "rounds", "elsewhere", "checks"):
        if not isinstance(getattr(row, name), dict | None):
            raise RefusedAnswerError(f"{row.key}: {name} must be an object")
    if row.second is not None:
        raise RefusedAnswerError(f"{row.key}: second is not a container's to say")


def _texts(environment: Environment) -> list[object]:
    named = [value for name, value in vars(environment).items() if name != "isolation"]
    return [*named, *environment.isolation]


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_keys(verdicts: Sequence[Verdict], jobs: Sequence[Job]) -> None:
    found = sorted(verdict.row.key for verdict in verdicts)
    if found != sorted(job.key for job in jobs):
        raise RefusedAnswerError(f"verdicts must be about the {len(jobs)} kernels that were sent, each once")


def _check_verdict(verdict: Verdict, job: Job, gpu: str) -> None:
    row = verdict.row
    wanted = {
        "kernel_sha256": job.kernel_sha256,
        "problem_sha256": job.problem.sha256,
        "evaluator_sha256": evaluator_sha256(),
    }
    for name, value in wanted.items():
        if getattr(row, name) != value:
            raise RefusedAnswerError(f"{row.key}: {name} is not that of the job")
    device = verdict.environment.device
    if verdict.environment.gpu != gpu or (gpu in gpus() and device not in gpus()[gpu].device_names):
        raise RefusedAnswerError(f"{row.key}: judged on {device[:60]!r}, not on the board's {gpu}")
    if not (0 <= row.gpu_seconds <= MAX_SECONDS_CLAIMED and 0 <= row.cpu_seconds <= MAX_SECONDS_CLAIMED):
        raise RefusedAnswerError(f"{row.key}: seconds must be 0 to {MAX_SECONDS_CLAIMED:.0f}")


def _seconds(value: object) -> float:
    if isinstance(value, int | float) and _is_figure(value) and 0 <= value <= MAX_SECONDS_CLAIMED:
        return float(value)
    raise RefusedAnswerError(f"seconds must be 0 to {MAX_SECONDS_CLAIMED:.0f}")


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RefusedAnswerError(f"expected an object, got {type(value).__name__}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
