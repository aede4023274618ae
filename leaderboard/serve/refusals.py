"""What a refusal says, in the same shape for every route, and which ones the OpenAPI document names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import HTTPException
from pydantic import BaseModel

Place = tuple[str | int, ...]
"""Where in a request something stands: `("body", "judgements", 3, "problem_id")`."""

BODY: Place = ("body",)

Responses = dict[int | str, dict[str, Any]]
"""Answers by their status, as FastAPI takes them for the OpenAPI document."""

_MEANINGS = {
    401: "There is no such API key.",
    403: "This key may not ask for that, or the request is from another machine or site.",
    404: "The key has no such judgement, or has it no more.",
    409: "Another kernel, problem or setting was sent under this id.",
    411: "Content-Length is missing.",
    413: "The request or a source is larger than it may be.",
    415: "The body does not say that it is JSON.",
    422: "Something in the request is wrong; nothing of it was taken.",
    429: "Too much waits, or was sent in the last minute.",
}


class Refusal(BaseModel):
    """Why a request was refused."""

    detail: str


class RequestMistake(BaseModel):
    """What is wrong at one place of a request."""

    type: str
    loc: list[str | int]
    msg: str


class RequestMistakes(BaseModel):
    """All that is wrong with a request, up to a bound."""

    detail: list[RequestMistake]


def mistake(place: Place, said: str) -> HTTPException:
    """Make the error that refuses a request for one mistake in it."""
    told = RequestMistake(type="value_error", loc=list(place), msg=said)
    return HTTPException(422, [told.model_dump()])


def documented(codes: Sequence[int]) -> Responses:
    """Describe these refusals."""
    found: Responses = {
        code: {"model": RequestMistakes if code == 422 else Refusal, "description": _MEANINGS[code]}
        for code in codes
    }
    if 429 in found:
        found[429]["headers"] = {
            "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}
        }
    return found
