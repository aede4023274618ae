"""The HTTP face of the server: JSON in, verdict out; OpenAPI at `/openapi.json`, metrics at `/metrics`.

Checks who asks, and hands on. Decides no verdict.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Response, Security
from fastapi.responses import PlainTextResponse, StreamingResponse
from fastapi.security import APIKeyHeader, HTTPBearer
from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.records.version import EVALUATOR_VERSION, evaluator_sha256

from leaderboard.serve import guards, metrics
from leaderboard.serve.desk import Desk, Rules
from leaderboard.serve.judgements import Judgement, Judgements
from leaderboard.serve.keys import Key, Keyring, keyring_of
from leaderboard.serve.memory import MAX_BYTES, VerdictMemory
from leaderboard.serve.refusals import BODY, Responses, documented
from leaderboard.serve.requests import Health, JudgementView, NewBatch, NewJudgement
from leaderboard.serve.workers import COMMAND, WorkerDevice, Workers

POLL_S = 0.02
_TAKING_IN = documented([409, 411, 413, 415, 429])
_KNOWN: Responses = {200: {"model": JudgementView, "description": "The verdict is known already."}}
_LINES: Responses = {
    200: {
        "description": "A line of JSON, a JudgementView, for each judgement.",
        "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
    }
}
_DEGRADED: Responses = {503: {"model": Health, "description": "A device has no worker."}}
_WHERE_KEYS_TRAVEL = [
    Security(HTTPBearer(scheme_name="Bearer", auto_error=False)),
    Security(APIKeyHeader(name="X-API-Key", scheme_name="X-API-Key", auto_error=False)),
]
"""For the OpenAPI document: one of the two is enough."""


@dataclass(frozen=True, kw_only=True)
class ServerSettings(Rules):
    """How the server is run. Without a key it lets everybody in: for one's own machine only."""

    devices: Sequence[WorkerDevice]
    keyring: Keyring = field(default_factory=lambda: keyring_of("", None, own_problems=False))
    memory: Path | None = None
    memory_bytes: int = MAX_BYTES
    max_queued: int = 1000
    max_kept: int = 10_000
    batch_size: int = 8
    first: Settings | None = None
    """What a process is made ready for before anything is asked."""
    command: Sequence[str] = COMMAND


def make_app(settings: ServerSettings) -> FastAPI:
    """Build the application; its workers start and stop with it. Raises MemoryFileError."""
    evaluator_sha256()  # parses, which Python 3.11 does in one thread at a time: so before there are more
    memory = VerdictMemory(settings.memory, settings.memory_bytes) if settings.memory else None
    judgements = Judgements(max_queued=settings.max_queued, max_kept=settings.max_kept, memory=memory)
    workers = Workers(
        judgements,
        settings.devices,
        batch_size=settings.batch_size,
        command=settings.command,
        first=settings.first,
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        workers.start()
        yield
        await asyncio.to_thread(workers.stop)
        if memory is not None:
            memory.close()

    app = FastAPI(title="KernelBench evaluation server", version=EVALUATOR_VERSION, lifespan=lifespan)
    app.state.is_stopping = False
    guards.add_size_limit(app, settings.max_source_bytes)
    guards.add_refusal(app)
    guards.add_key_check(app, settings.keyring)
    if settings.keyring.is_open:
        guards.add_neighbourhood(app)
    figures = metrics.Metrics(judgements, memory, workers.counts)
    judgements.on_done = figures.note
    _add_judgements(app, Desk(settings, judgements, settings.keyring), settings.keyring, workers.cancel)
    _add_health(app, settings, judgements, workers, figures)
    return app


def _add_judgements(
    app: FastAPI, desk: Desk, keyring: Keyring, cancel_item: Callable[[Judgement], object]
) -> None:
    owner: Any = Depends(_key_check(keyring))
    routes = APIRouter(
        route_class=guards.StrictRoute,
        responses=documented([401, 403, 422]),
        dependencies=[] if keyring.is_open else _WHERE_KEYS_TRAVEL,
    )

    @routes.post("/v1/judgements", status_code=202, responses=_TAKING_IN | _KNOWN)
    def submit(asked: NewJudgement, response: Response, key: Key = owner) -> JudgementView:
        """Queue a kernel; the status is 200, and the verdict there, where it is known already."""
        [item] = desk.take_in(key, {BODY: asked})
        response.status_code = 200 if item.is_finished else 202
        return desk.view(item)

    @routes.post(guards.BATCHES, response_class=StreamingResponse, responses=_TAKING_IN | _LINES)
    def submit_batch(asked: NewBatch, key: Key = owner) -> StreamingResponse:
        """Queue kernels, all or none; answers come as lines of JSON, each as soon as its verdict is there."""
        each = {(*BODY, "judgements", at): one for at, one in enumerate(asked.judgements)}
        items = desk.take_in(key, each)
        return StreamingResponse(_as_they_come(desk, items), media_type="application/x-ndjson")

    @routes.get("/v1/judgements/{judgement_id}", responses=documented([404]))
    async def look(
        judgement_id: str,
        wait_s: Annotated[float, Query(ge=0, le=60, description="Wait for the verdict.")] = 0.0,
        key: Key = owner,
    ) -> JudgementView:
        """Say where a judgement is, at the latest after `wait_s`."""
        item = desk.find(key, judgement_id)
        deadline = time.monotonic() + wait_s
        while not (item.is_finished or app.state.is_stopping) and time.monotonic() < deadline:
            await asyncio.sleep(POLL_S)
        return desk.view(item)

    @routes.delete("/v1/judgements/{judgement_id}", responses=documented([404]))
    def cancel(judgement_id: str, key: Key = owner) -> JudgementView:
        """Cancel a judgement; one that is done stays done."""
        item = desk.find(key, judgement_id)
        cancel_item(item)
        return desk.view(item)

    app.include_router(routes)


async def _as_they_come(desk: Desk, items: Sequence[Judgement]) -> AsyncIterator[str]:
    """Give a line for each judgement that is finished; who goes away can still look them up."""
    waiting = list(items)
    while waiting:
        for item in [item for item in waiting if item.is_finished]:
            waiting.remove(item)
            # In ASCII: most readers of lines take more than \n for an end, and kernels say what they like.
            yield json.dumps(desk.view(item).model_dump()) + "\n"
        if waiting:
            await asyncio.sleep(POLL_S)


def _add_health(
    app: FastAPI,
    settings: ServerSettings,
    judgements: Judgements,
    workers: Workers,
    figures: metrics.Metrics,
) -> None:
    @app.get("/v1/health", responses=documented([403]) | _DEGRADED)
    def health(response: Response) -> Health:
        """Say whether every device has its worker; 503 where one is missing."""
        whole = workers.counts()["alive"] == len(settings.devices)
        response.status_code = 200 if whole else 503
        gauges = judgements.gauges()
        return Health(
            status="ok" if whole else "degraded",
            device=settings.device,
            devices=[device.name for device in settings.devices],
            failing=workers.failing(),
            evaluator_version=EVALUATOR_VERSION,
            evaluator_sha256=evaluator_sha256(),
            queued=gauges["queued"],
            running=gauges["running"],
        )

    @app.get("/metrics", response_class=PlainTextResponse, responses=documented([403]))
    def tell() -> PlainTextResponse:
        """Give counts for Prometheus."""
        return PlainTextResponse(figures.text(), media_type=metrics.FORMAT)


def _key_check(keyring: Keyring) -> Callable[..., Key]:
    def check(request: Request) -> Key:
        key = keyring.find(guards.key_in(request.headers))
        if key is None:
            raise HTTPException(401, guards.NO_KEY)
        return key

    return check
