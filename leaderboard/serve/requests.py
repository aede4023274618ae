"""What can be asked of the server, and how it answers: the shapes of its JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from leaderboard.serve import MAX_BATCH


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
    """A kernel to judge: on a problem of the set, by level and id, or on one whose source is sent along."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "oneOf": [
                {"required": [name], "properties": {name: {"not": {"type": "null"}}}}
                for name in ("problem_id", "problem_source")
            ]
        },
    )

    level: int = Field(1, ge=1, le=4)
    problem_id: int | None = Field(None, ge=1)
    problem_source: Annotated[str | None, BeforeValidator(_encodable)] = Field(
        None,
        min_length=1,
        description="A problem of your own: Python source with Model, get_inputs and get_init_inputs.",
    )
    source: Annotated[str, BeforeValidator(_encodable)] = Field(
        min_length=1, description="Python source that defines ModelNew."
    )
    precision: Literal["fp32", "fp16", "bf16"] = "fp32"
    trials: int = Field(5, ge=1, le=20, description="Correctness trials.")
    measure: bool = Field(
        True, description="Whether to time a correct kernel; what is not timed is judged before the rest."
    )
    timeout_s: float = Field(180.0, gt=0, description="Seconds the kernel may take.")
    again: bool = Field(False, description="Judge it, whatever was found before.")
    id: str | None = Field(
        None, pattern=r"^[A-Za-z0-9_-]{1,64}$", description="Your own id: sending it twice judges once."
    )

    @model_validator(mode="after")
    def _names_one_problem(self) -> Self:
        if (self.problem_id is None) == (self.problem_source is None):
            raise ValueError("name a problem by level and problem_id, or send problem_source: one of the two")
        return self


class NewBatch(BaseModel):
    """Kernels to judge, taken in all or none."""

    model_config = ConfigDict(extra="forbid")

    judgements: list[NewJudgement] = Field(min_length=1, max_length=MAX_BATCH)

    @model_validator(mode="after")
    def _ids_are_unlike(self) -> Self:
        ids = [each.id for each in self.judgements if each.id is not None]
        if len(ids) != len(set(ids)):
            raise ValueError("no two judgements of a batch may have the same id")
        return self


class JudgementView(BaseModel):
    """Where a judgement is, and its verdict once it is done."""

    id: str
    state: Literal["queued", "running", "done", "cancelled"]
    position: int | None = Field(None, description="Judgements in front of it, while it waits.")
    created: float
    started: float | None = None
    finished: float | None = None
    remembered: bool = Field(False, description="Whether the verdict was reached for another request.")
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
