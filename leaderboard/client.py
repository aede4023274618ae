"""A typed client of the evaluation server, for training loops and agents. Needs httpx alone.

with JudgeClient("http://localhost:8900", api_key="…") as client:
    row = client.judge(1, 19, source)
    print(row.status, row.speedup)
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx
from kernel_evaluator.records.rows import Row

from leaderboard.serve import KEY, MAX_BATCH, MAX_BATCH_BYTES

LONGEST_WAIT_S = 30.0
"""One request waits at most this long for a verdict; `wait` repeats it."""

LONGEST_JUDGING_S = 3600.0

SILENT_S = 600.0
"""A batch on which nothing is said for so long is sent again: the server may be gone without a word."""

_BUSY = (429, 502, 503, 504)
_ABSENT = 404


class ServerError(Exception):
    """The server refused a request, or stayed away too long. The message is the server's."""


class AbsentError(ServerError):
    """The server knows nothing there: it was started anew since, or kept more than it keeps."""


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """Where a judgement is: `queued`, `running`, `done` or `cancelled`; `row` once it is done."""

    id: str
    state: str
    position: int | None
    row: Row | None

    @property
    def is_finished(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in ("done", "cancelled")


class JudgeClient:
    """Talks to one server; threads may share it. A context manager: leaving it closes connections."""

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        *,
        timeout_s: float = 60.0,
        patience_s: float = 300.0,
        silent_s: float = SILENT_S,
    ) -> None:
        """Raises ValueError for an address or a key with which no request can be sent."""
        if not base_url.lower().startswith(("http://", "https://")):
            raise ValueError(f"the server's URL must begin with http:// or https://, got {base_url!r}")
        if not re.fullmatch(KEY, api_key):
            raise ValueError(
                "the API key must be of visible ASCII characters without spaces or ends of lines"
            )
        headers = {"Content-Type": "application/json"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        limits = httpx.Limits(max_connections=None)  # threads share it, and each waits on a connection
        self._http = httpx.Client(base_url=base_url, headers=headers, timeout=timeout_s, limits=limits)
        self._patience_s = patience_s
        self._batch_timeout = httpx.Timeout(timeout_s, read=silent_s)

    def submit(self, level: int, problem_id: int | None, source: str, **options: Any) -> Ticket:
        """Queue a kernel. Options are those of the API: precision, trials, measure, timeout_s, again, id.

        On a problem of your own `problem_id` is None, and `problem_source` among the options.
        A repeated request carries the same id, so a kernel is judged once however often the network fails.
        """
        body = {"id": uuid.uuid4().hex, **options, "level": level, "problem_id": problem_id, "source": source}
        return _ticket(self._ask("POST", "/v1/judgements", content=json.dumps(body)))

    def look(self, judgement_id: str, wait_s: float = 0.0) -> Ticket:
        """Say where a judgement is, at the latest after `wait_s`."""
        path = f"/v1/judgements/{judgement_id}"
        return _ticket(self._ask("GET", path, params={"wait_s": min(wait_s, LONGEST_WAIT_S)}))

    def wait(self, judgement_id: str, timeout_s: float = LONGEST_JUDGING_S) -> Row:
        """Wait for a verdict; raise ServerError where it was cancelled or does not come in time."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            ticket = self.look(judgement_id, left)
            if ticket.row is not None:
                return ticket.row
            if ticket.is_finished:
                raise ServerError(f"judgement {judgement_id} was cancelled")
        raise ServerError(f"judgement {judgement_id} has no verdict after {timeout_s:g} s")

    def judge(self, level: int, problem_id: int | None, source: str, **options: Any) -> Row:
        """Queue a kernel and wait for its verdict. A server that was started anew gets it again."""
        options = {"id": uuid.uuid4().hex, **options}
        deadline = time.monotonic() + LONGEST_JUDGING_S
        while True:
            ticket = self.submit(level, problem_id, source, **options)
            try:
                return ticket.row or self.wait(ticket.id)
            except AbsentError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1.0)

    def judge_many(
        self, kernels: Iterable[Mapping[str, Any]], *, per_request: int = MAX_BATCH, **options: Any
    ) -> Iterator[Ticket]:
        """Queue kernels, a thousand a request, and give each with its verdict as soon as that is there.

        A kernel is what `submit` takes: `{"level": 1, "problem_id": 19, "source": "…"}`; options are for all.
        Where the connection breaks the same ids are sent again, so nothing is judged or told twice.
        `per_request` is for servers and keys that let fewer wait.
        """
        if per_request < 1:
            raise ValueError(f"per_request must be 1 or more, got {per_request}")
        asked = [{"id": uuid.uuid4().hex, **options, **kernel} for kernel in kernels]
        told: set[str] = set()
        for batch in _batches(map(json.dumps, asked), min(per_request, MAX_BATCH)):
            for line in self._lines(f'{{"judgements": [{", ".join(batch)}]}}'):
                ticket = _ticket(json.loads(line))
                if ticket.id not in told:
                    told.add(ticket.id)
                    yield ticket

    def cancel(self, judgement_id: str) -> Ticket:
        """Cancel a judgement; one that is done stays done."""
        return _ticket(self._ask("DELETE", f"/v1/judgements/{judgement_id}"))

    def health(self) -> Mapping[str, Any]:
        """Say how the server is."""
        return self._ask("GET", "/v1/health")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def _ask(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """Ask, again and again while the server is busy or away, until patience ends."""
        deadline = time.monotonic() + self._patience_s
        wait_s = 0.2
        while True:
            trouble = self._attempt(method, path, more)
            if isinstance(trouble, dict):
                return trouble
            if time.monotonic() + wait_s > deadline:
                raise ServerError(f"no answer within {self._patience_s:g} s, the last one: {trouble}")
            time.sleep(wait_s)
            wait_s = min(5.0, wait_s * 2)

    def _lines(self, content: str) -> Iterator[str]:
        """Send a batch and give the lines of the answer; again and again while the server is busy or away.

        Patience counts from the first trouble after the last line: a batch may take longer than that.
        """
        troubled: float | None = None
        while True:
            try:
                with self._http.stream(
                    "POST", "/v1/batches", content=content, timeout=self._batch_timeout
                ) as response:
                    if response.is_error:
                        trouble = _refusal(response.status_code, response.read().decode())
                    else:
                        for line in response.iter_lines():
                            troubled = None
                            yield line
                        return
                if response.status_code not in _BUSY:
                    raise ServerError(trouble)
            except httpx.ReadTimeout:
                continue
            except httpx.RequestError as error:
                trouble = f"{type(error).__name__}: {error}"
            now = time.monotonic()
            troubled = now if troubled is None else troubled
            if now - troubled >= self._patience_s:
                raise ServerError(f"no answer within {self._patience_s:g} s, the last one: {trouble}")
            time.sleep(1.0)

    def _attempt(self, method: str, path: str, more: Mapping[str, Any]) -> dict[str, Any] | str:
        try:
            response = self._http.request(method, path, **more)
        except httpx.RequestError as error:
            return f"{type(error).__name__}: {error}"
        if response.status_code in _BUSY and path != "/v1/health":
            return _refusal(response.status_code, response.text)
        if response.is_error and path != "/v1/health":
            kind = AbsentError if response.status_code == _ABSENT else ServerError
            raise kind(_refusal(response.status_code, response.text))
        try:
            data: dict[str, Any] = response.json()
        except (ValueError, RecursionError) as error:
            return f"the answer is no JSON: {error!r}"
        return data


def _refusal(status: int, text: str) -> str:
    """Say why the server refused, each mistake with its place; what another program answers as it is."""
    try:
        detail = json.loads(text)["detail"]
        told = [detail] if isinstance(detail, str) else [_mistake(each) for each in detail]
    except (ValueError, RecursionError, KeyError, TypeError):
        told = [text]
    return f"HTTP {status}: {'; '.join(told)[:500]}"


def _mistake(told: Mapping[str, Any]) -> str:
    place = ".".join(map(str, told["loc"][1:]))
    return f"{place}: {told['msg']}" if place else str(told["msg"])


def _batches(texts: Iterable[str], most: int) -> Iterator[list[str]]:
    """Divide what is sent, in ASCII, into requests of so many that the server takes each for its size too."""
    batch: list[str] = []
    room = left = MAX_BATCH_BYTES - 100  # for what stands around them
    for text in texts:
        if batch and (len(batch) == most or len(text) > left):
            yield batch
            batch, left = [], room
        batch.append(text)
        left -= len(text) + 2
    if batch:
        yield batch


def _ticket(data: Mapping[str, Any]) -> Ticket:
    row = Row.from_json(data["row"]) if data["row"] else None
    return Ticket(id=data["id"], state=data["state"], position=data["position"], row=row)
