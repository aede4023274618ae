"""The HTTP face of the server: JSON in, verdict out; OpenAPI at `/openapi.json`, metrics at `/metrics`.

Checks who asks and what is asked, and hands on. Decides no verdict.
"""

from __future__ import annotations

import asyncio
import difflib
import hmac
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from fastapi import Depends, FastAPI, Header, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import Problem, ProblemSet, read_sizes
from kernel_evaluator.records.version import EVALUATOR_VERSION, evaluator_sha256
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from leaderboard.serve.judgements import IdTakenError, Judgement, Judgements, QueueFullError
from leaderboard.serve.metrics import as_prometheus
from leaderboard.serve.workers import COMMAND, Device, Workers

POLL_S = 0.05
NEIGHBOURS = ("127.0.0.1", "localhost", "::1")
"""Names of this machine that no other site can have."""


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """How the server is run. An empty key lets everybody in: for one's own machine only."""

    device: str
    devices: Sequence[Device]
    problem_set: ProblemSet
    api_key: str = ""
    max_queued: int = 1000
    max_kept: int = 10_000
    max_source_bytes: int = 524_288
    max_timeout_s: float = 600.0
    batch_size: int = 16
    command: Sequence[str] = COMMAND


def _encodable(source: object) -> object:
    """Refuse text that UTF-8 cannot hold; what is no text at all is refused by its type."""
    try:
        if isinstance(source, str):
            source.encode()
    except UnicodeEncodeError as error:
        found = f"the lone surrogate {error.object[error.start]!a} at character {error.start}"
        raise ValueError(f"source must be text that UTF-8 can hold, found {found}") from error
    return source


class NewJudgement(BaseModel):
    """A kernel to judge."""

    model_config = ConfigDict(extra="forbid")

    level: int = Field(ge=1, le=4)
    problem_id: int = Field(ge=1)
    source: Annotated[str, BeforeValidator(_encodable)] = Field(
        min_length=1, description="Python source that defines ModelNew."
    )
    precision: Literal["fp32", "fp16", "bf16"] = "fp32"
    trials: int = Field(5, ge=1, le=20, description="Correctness trials.")
    measure: bool = Field(True, description="Whether to time a correct kernel.")
    timeout_s: float = Field(180.0, gt=0, description="Seconds the kernel may take.")
    id: str | None = Field(
        None, pattern=r"^[A-Za-z0-9_-]{1,64}$", description="Your own id: sending it twice judges once."
    )


class JudgementView(BaseModel):
    """Where a judgement is, and its verdict once it is done."""

    id: str
    state: Literal["queued", "running", "done", "cancelled"]
    position: int | None = Field(None, description="Judgements in front of it, while it waits.")
    created: float
    started: float | None = None
    finished: float | None = None
    row: dict[str, Any] | None = Field(None, description="The verdict: a result row of the board's format.")
    environment: dict[str, Any] | None = Field(None, description="Where it was measured.")


class Health(BaseModel):
    """Whether the server can judge."""

    status: Literal["ok", "degraded"]
    device: str
    devices: list[str]
    failing: list[str] = Field(description="Devices whose last process left kernels without a verdict.")
    evaluator_version: str
    evaluator_sha256: str
    queued: int
    running: int


def make_app(settings: ServerSettings) -> FastAPI:
    """Build the application; its workers start and stop with it."""
    judgements = Judgements(max_queued=settings.max_queued, max_kept=settings.max_kept)
    workers = Workers(judgements, settings.devices, batch_size=settings.batch_size, command=settings.command)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        workers.start()
        yield
        await asyncio.to_thread(workers.stop)

    app = FastAPI(title="KernelBench evaluation server", version=EVALUATOR_VERSION, lifespan=lifespan)
    _add_size_limit(app, settings.max_source_bytes * 2 + 4096)
    _add_refusal(app)
    if not settings.api_key:
        _add_neighbourhood(app)
    _add_judgements(app, settings, judgements, workers)
    _add_health(app, settings, judgements, workers)
    return app


def _add_judgements(app: FastAPI, settings: ServerSettings, judgements: Judgements, workers: Workers) -> None:
    allowed = [Depends(_key_check(settings.api_key))]
    desk = _Desk(settings, judgements)

    @app.post("/v1/judgements", status_code=202, dependencies=allowed)
    def submit(asked: NewJudgement) -> JudgementView:
        """Queue a kernel."""
        return desk.view(desk.take_in(asked))

    @app.get("/v1/judgements/{judgement_id}", dependencies=allowed)
    async def look(
        judgement_id: str,
        wait_s: Annotated[float, Query(ge=0, le=60, description="Wait for the verdict.")] = 0.0,
    ) -> JudgementView:
        """Say where a judgement is, at the latest after `wait_s`."""
        item = desk.find(judgement_id)
        deadline = time.monotonic() + wait_s
        while not item.is_finished and time.monotonic() < deadline:
            await asyncio.sleep(POLL_S)
        return desk.view(item)

    @app.delete("/v1/judgements/{judgement_id}", dependencies=allowed)
    def cancel(judgement_id: str) -> JudgementView:
        """Cancel a judgement; one that is done stays done."""
        item = desk.find(judgement_id)
        if judgements.cancel(item):
            workers.cancelled(item)
        return desk.view(item)


def _add_health(app: FastAPI, settings: ServerSettings, judgements: Judgements, workers: Workers) -> None:
    @app.get("/v1/health")
    def health(response: Response) -> Health:
        """Say whether every device has its worker; 503 where one is missing."""
        whole = workers.alive() == len(settings.devices)
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

    @app.get("/metrics", response_class=PlainTextResponse)
    def metrics() -> PlainTextResponse:
        """Give counts for Prometheus."""
        text = as_prometheus(judgements, deaths=workers.deaths, workers=workers.alive())
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


class _Desk:
    """Turns requests into judgements, and judgements into answers."""

    def __init__(self, settings: ServerSettings, judgements: Judgements) -> None:
        self._settings = settings
        self._judgements = judgements
        self._sizes = read_sizes() if settings.device == "cpu" else {}
        self._problems: dict[tuple[int, int], Problem] = {}

    def take_in(self, asked: NewJudgement) -> Judgement:
        if len(asked.source.encode()) > self._settings.max_source_bytes:
            raise HTTPException(413, f"source must be at most {self._settings.max_source_bytes} bytes")
        if asked.timeout_s > self._settings.max_timeout_s:
            raise HTTPException(422, f"timeout_s must be at most {self._settings.max_timeout_s:g}")
        item = Judgement(
            id=asked.id or uuid.uuid4().hex,
            problem=self._problem(asked.level, asked.problem_id),
            source=asked.source,
            settings=Settings(
                sizes="reduced" if self._settings.device == "cpu" else "full",
                device=self._settings.device,
                precision=asked.precision,
                trials=asked.trials,
                measure=asked.measure,
                timeout_s=asked.timeout_s,
            ),
        )
        try:
            return self._judgements.add(item)
        except IdTakenError as error:
            raise HTTPException(409, str(error)) from error
        except QueueFullError as error:
            raise HTTPException(429, str(error), headers={"Retry-After": "5"}) from error

    def find(self, judgement_id: str) -> Judgement:
        item = self._judgements.find(judgement_id)
        if item is None:
            raise HTTPException(404, "no such judgement; finished ones are kept for a while only")
        return item

    def view(self, item: Judgement) -> JudgementView:
        verdict = item.verdict or {}
        return JudgementView(
            id=item.id,
            state=item.state.value,
            position=self._judgements.position(item),
            created=item.created,
            started=item.started,
            finished=item.finished,
            row=verdict.get("row"),
            environment=verdict.get("environment"),
        )

    def _problem(self, level: int, problem_id: int) -> Problem:
        key = (level, problem_id)
        if key not in self._problems:
            try:
                self._problems[key] = self._settings.problem_set.load(*key).reduced(self._sizes)
            except KeyError as error:
                raise HTTPException(422, f"there is no problem {problem_id} in level {level}") from error
        return self._problems[key]


def _key_check(api_key: str) -> Callable[..., None]:
    def check(authorization: Annotated[str, Header()] = "", x_api_key: Annotated[str, Header()] = "") -> None:
        given = x_api_key or authorization.removeprefix("Bearer ")
        if api_key and not hmac.compare_digest(given.encode(), api_key.encode()):
            raise HTTPException(401, "send the API key as `Authorization: Bearer …` or `X-API-Key`")

    return check


def _add_refusal(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def refuse(request: Request, error: RequestValidationError) -> JSONResponse:
        """Say where and what is wrong, never what was sent: it may hold what no answer can, such as NaN."""
        told = [
            {"type": each["type"], "loc": [_encoded(part) for part in each["loc"]], "msg": _said(each)}
            for each in error.errors()
        ]
        return JSONResponse({"detail": told}, status_code=422)


def _encoded(part: object) -> object:
    """A place as an answer can hold it: the name of a field may be any text that JSON allows."""
    return part.encode("utf-8", "replace").decode() if isinstance(part, str) else part


def _said(error: Mapping[str, Any]) -> str:
    """Say what is wrong; of a field that is not known, which one may have been meant."""
    if error["type"] != "extra_forbidden":
        return str(error["msg"])
    known = list(NewJudgement.model_fields)
    near = difflib.get_close_matches(str(error["loc"][-1]), known, n=1)
    return (
        f"no such field; did you mean {near[0]}?" if near else f"no such field; there are {', '.join(known)}"
    )


def _add_neighbourhood(app: FastAPI) -> None:
    """Where there is no key, answer this machine alone, and no page of another site under whatever name."""

    @app.middleware("http")
    async def guard(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
        for header, needed in (("host", True), ("origin", False)):
            given = request.headers.get(header, "")
            if (given or needed) and _host_of(given) not in NEIGHBOURS:
                detail = f"without a key the header {header} must name one of {', '.join(NEIGHBOURS)}"
                return JSONResponse({"detail": detail}, status_code=403)
        return await proceed(request)


def _host_of(given: str) -> str | None:
    try:
        return urlsplit(given if "//" in given else f"//{given}").hostname
    except ValueError:
        return None


def _add_size_limit(app: FastAPI, most: int) -> None:
    @app.middleware("http")
    async def limit(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
        length = request.headers.get("content-length", "")
        if request.method == "POST" and not length.isdecimal():
            return JSONResponse({"detail": "Content-Length is required"}, status_code=411)
        if length.isdecimal() and int(length) > most:
            return JSONResponse({"detail": f"a request must be at most {most} bytes"}, status_code=413)
        return await proceed(request)
