"""The check of fields against the published JSON Schema, in words that say what to write instead."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from kernel_evaluator.records.keys import KernelKey

from leaderboard.checks.document import Document, Spot, quoted
from leaderboard.resources import SCHEMAS
from leaderboard.texts.json_positions import pointer_of

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

SCHEMA_PATH = SCHEMAS / "submission.schema.json"

_MAX_ERRORS = 1000
_TYPES = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "a number"}
_KEY_EXAMPLE = (
    "write keys like level_1_problem_23_sample_0: levels 1 to 4, samples 0 to 99, no zeros in front"
)


def fields(document: Document) -> Iterator[Spot]:
    """Require the fields, types and kernel keys of `schemas/submission.schema.json`."""
    errors = islice(_validator().iter_errors(document.value), _MAX_ERRORS)
    # Of two lacking fields the library tells one at a time, and each error names the schema's whole list.
    yield from dict.fromkeys(spot for error in errors for spot in _spots(document, error))


@cache
def _validator() -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads(SCHEMA_PATH.read_text("utf-8")))


def _spots(document: Document, error: ValidationError) -> Iterator[Spot]:
    path = tuple(error.absolute_path)
    if "propertyNames" in error.absolute_schema_path:
        yield _key_spot(document, path, str(error.instance))
    elif error.validator == "additionalProperties" and isinstance(error.instance, dict):
        yield from _unknown_fields(document, path, error.instance, error.schema)
    elif error.validator == "required" and isinstance(error.instance, dict):
        required: Any = error.validator_value
        for name in required:
            if name not in error.instance:
                mend = f'add "{name}": …'
                found = f"{_field(path)} lacks {quoted(name)}"
                yield Spot(offset=document.offset(*path), message=found, mend=mend)
    else:
        message, mend = _explain(error)
        yield Spot(offset=document.offset(*path), message=f"{_field(path)} {message}", mend=mend)


def _unknown_fields(
    document: Document, path: tuple[str | int, ...], instance: Mapping[str, Any], schema: object
) -> Iterator[Spot]:
    known = schema.get("properties", {}) if isinstance(schema, dict) else {}
    for name in instance:
        if name not in known:
            offset = document.walk.keys.get(pointer_of((*path, name)), 0)
            found = f"{_field(path)} has an unknown field {quoted(name)}"
            yield Spot(offset=offset, message=found, mend=f"known fields are {', '.join(known)}")


def _key_spot(document: Document, path: tuple[str | int, ...], key: str) -> Spot:
    offset = document.walk.keys.get(pointer_of((*path, key)), 0)
    try:
        KernelKey.parse(key.strip().lower().removesuffix(".py"))
    except ValueError as error:
        reason = str(error) if key.startswith("level_") and len(key) < 60 else "it names no problem"
        return Spot(offset=offset, message=f"{quoted(key)} is not a kernel key: {reason}", mend=_KEY_EXAMPLE)
    mend = f"write {key.strip().lower().removesuffix('.py')}"
    return Spot(offset=offset, message=f"{quoted(key)} is not a kernel key as it is spelt", mend=mend)


def _explain(error: ValidationError) -> tuple[str, str]:
    """Say what is wrong with one value, and the mend."""
    value: Any = error.instance
    limit: Any = error.validator_value
    bound = "at least" if error.validator == "minimum" else "at most"
    kind = limit[0] if isinstance(limit, list) else limit
    wanted = {"object": "an object", "integer": "an integer"}.get(kind, f"a {kind}")
    address = error.validator == "pattern" and "https" in limit
    texts = {
        "type": (f"must be {wanted}, found {_kind(value)}", f"write {wanted} there"),
        "minLength": ("must not be empty", "write something there, or leave the key out"),
        "maxLength": (f"is longer than {limit} characters", "shorten it"),
        "minimum": (f"must be {bound} {limit}, found {value}", f"write a number of {bound} {limit}"),
        "maximum": (f"must be {bound} {limit}, found {value}", f"write a number of {bound} {limit}"),
        "minProperties": ("must not be empty", "add at least one kernel"),
        "pattern": (f"must be a web address, found {quoted(str(value))}", "write it out, with https://")
        if address
        else (f"is blank or has control characters: {quoted(str(value))}", "write one line of visible text"),
    }
    other = f"breaks the rule {error.validator}: {quoted(error.message, 120)}"
    return texts.get(str(error.validator), (other, f"see {SCHEMA_PATH.name}"))


def _field(path: tuple[str | int, ...]) -> str:
    shown = ".".join(str(part) for part in path)
    return quoted(shown, 80).strip("'\"") if shown else "the submission"


def _kind(value: object) -> str:
    kind = "null" if value is None else _TYPES.get(type(value), "a number")
    return f"{kind} ({value})" if isinstance(value, int | float) else kind
