"""What stands before every request: its key, its size, where it is from, and how a wrong one is refused."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from leaderboard.checks.document import quoted
from leaderboard.serve import MAX_BATCH, MAX_BATCH_BYTES
from leaderboard.serve.keys import Keyring
from leaderboard.serve.refusals import BODY, RequestMistake, RequestMistakes, mistake
from leaderboard.serve.requests import NewJudgement
from leaderboard.texts.inert import encodable

NEIGHBOURS = ("127.0.0.1", "localhost", "::1")
"""Names of this machine that no other site can have."""
NO_KEY = "no API key that this server knows came along; send one as `Authorization: Bearer …` or `X-API-Key`"
BATCHES = "/v1/batches"
MOST_FIELDS, MOST_TOLD = 100, 20
"""Fields that an object may have, and mistakes that are told of a request: others wait meanwhile."""
_ESCAPED = 6
"""So many bytes JSON may take for one of a text, as for a control character."""


def add_refusal(app: FastAPI) -> None:
    """Refuse what is no request with where and what is wrong."""

    @app.exception_handler(RequestValidationError)
    async def refuse(request: Request, error: RequestValidationError) -> JSONResponse:
        """Never say what was sent: it may hold what no answer can, such as NaN."""
        told = [
            RequestMistake(type=each["type"], loc=list(map(_place, each["loc"])), msg=_said(each))
            for each in error.errors()[:MOST_TOLD]
        ]
        return JSONResponse(RequestMistakes(detail=told).model_dump(), status_code=422)


class StrictRoute(APIRoute):
    """A route that takes no body whose keys repeat: which of the two was meant, nobody can say."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Hand a request on as one that reads its body strictly."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(_StrictRequest(request.scope, request.receive))

        return handle


class _StrictRequest(Request):
    async def json(self) -> Any:
        body = await self.body()
        try:
            return json.loads(body, object_pairs_hook=_unrepeated)
        except json.JSONDecodeError:
            raise  # which is told with its place
        except RecursionError as error:
            raise mistake(BODY, "this JSON is nested too deeply to be read") from error
        except UnicodeDecodeError as error:
            raise mistake(BODY, f"the body must be UTF-8; {error.reason} at byte {error.start}") from error
        except ValueError as error:
            raise mistake(BODY, "a number in this JSON has too many digits") from error


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MOST_FIELDS:
        raise mistake(BODY, f"an object has at most {MOST_FIELDS} fields, got {len(pairs)}")
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise mistake(BODY, f"key {quoted(repeated)} is repeated; keep one of the two")
    return found


def _place(part: str | int) -> str | int:
    """A place as an answer can hold it: the name of a field may be any text that JSON allows."""
    return encodable(part) if isinstance(part, str) else part


def _said(error: Mapping[str, Any]) -> str:
    """Say what is wrong; of a field that is not known, which one may have been meant."""
    if error["type"] != "extra_forbidden":
        return str(error["msg"])
    known = list(NewJudgement.model_fields)
    near = difflib.get_close_matches(str(error["loc"][-1]), known, n=1)
    return (
        f"no such field; did you mean {near[0]}?" if near else f"no such field; there are {', '.join(known)}"
    )


def add_neighbourhood(app: FastAPI) -> None:
    """Where there is no key, answer this machine alone, and no page of another site under whatever name."""

    @app.middleware("http")
    async def guard(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
        for header, needed in (("host", True), ("origin", False)):
            given = request.headers.get(header, "")
            if (given or needed) and _host_of(given) not in NEIGHBOURS:
                detail = f"without a key the header {header} must name one of {', '.join(NEIGHBOURS)}"
                return JSONResponse({"detail": detail}, status_code=403)
        return await proceed(request)


def add_key_check(app: FastAPI, keyring: Keyring) -> None:
    """Refuse a stranger's request before it is read: it may be as large as a batch."""

    @app.middleware("http")
    async def check(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
        if request.method == "POST" and keyring.find(key_in(request.headers)) is None:
            return JSONResponse({"detail": NO_KEY}, status_code=401)
        return await proceed(request)


def key_in(headers: Mapping[str, str]) -> str:
    """Give the key that a request's headers hold; empty where they hold none."""
    authorization = headers.get("authorization", "")
    scheme, _, token = authorization.partition(" ")  # schemes are read in any case
    return headers.get("x-api-key") or (token if scheme.lower() == "bearer" else authorization)


def _host_of(given: str) -> str | None:
    try:
        return urlsplit(given if "//" in given else f"//{given}").hostname
    except ValueError:
        return None


def _is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"


def add_size_limit(app: FastAPI, max_source_bytes: int) -> None:
    """Refuse a request that is larger than it may be, or that says it is no JSON, before it is read."""
    single = max_source_bytes * 2 * _ESCAPED + 4096  # a kernel and a problem
    batch = min(MAX_BATCH_BYTES, single * MAX_BATCH)

    @app.middleware("http")
    async def limit(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
        most = batch if request.scope["path"] == BATCHES else single
        length = request.headers.get("content-length", "")
        if request.method == "POST" and not length.isdecimal():
            return JSONResponse({"detail": "Content-Length is required"}, status_code=411)
        if request.method == "POST" and not _is_json(kind := request.headers.get("content-type", "")):
            detail = f"Content-Type must be application/json, got {quoted(kind)}"
            return JSONResponse({"detail": detail}, status_code=415)
        if length.isdecimal() and int(length) > most:
            return JSONResponse({"detail": f"a request must be at most {most} bytes"}, status_code=413)
        return await proceed(request)
