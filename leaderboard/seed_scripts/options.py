"""Reads `key=value` options, as KernelBench's scripts take them, or `--key value`, into a dataclass."""

from __future__ import annotations

import ast
import dataclasses
import typing
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class OptionError(Exception):
    """A wrong option. The message names it and what would be right."""


def read_options(kind: type[T], arguments: Sequence[str]) -> T:
    """Fill the dataclass from the command line; fields without a default are required."""
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    given = _pairs(arguments, {name for name in fields if hints[name] is bool})
    unknown = sorted(set(given) - set(fields))
    if unknown:
        raise OptionError(f"unknown option {', '.join(unknown)}; known are {', '.join(fields)}")
    missing = [
        name
        for name, field in fields.items()
        if field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
        and name not in given
    ]
    if missing:
        raise OptionError(f"required: {', '.join(f'{name}=…' for name in missing)}")
    return kind(**{name: _value(name, text, hints[name]) for name, text in given.items()})


def asks_for_help(arguments: Sequence[str]) -> bool:
    """Whether the command line asks which options there are."""
    return not {"--help", "-h"}.isdisjoint(arguments)


def help_text(kind: type) -> str:
    """List the dataclass's fields, each as it is given, with its default where it has one."""
    lines = ["Options, as key=value or --key value; those with … are required:"]
    for field in dataclasses.fields(kind):
        made = field.default_factory
        default = field.default if made is dataclasses.MISSING else made()
        lines.append(f"  {field.name}={'…' if default is dataclasses.MISSING else default}")
    return "\n".join(lines)


def _pairs(arguments: Sequence[str], switches: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, separator, value = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not separator and not word.startswith("--"):
            raise OptionError(f"an option must look like key=value or --key value, got {word!r}")
        if not separator:
            is_switch = name in switches and (not rest or "=" in rest[0] or rest[0].startswith("--"))
            if not is_switch and not rest:
                raise OptionError(f"--{name} needs a value")
            value = "True" if is_switch else rest.pop(0)
        found[name] = value
    return found


def _value(name: str, text: str, hint: Any) -> Any:
    """Read a value as what the field holds; a text stays as it is written."""
    choices = typing.get_args(hint)
    if type(None) in choices:
        if text in ("None", "null", ""):
            return None
        hint = next(kind for kind in choices if kind is not type(None))
    container = typing.get_origin(hint)
    if hint is str or (container is None and text == ""):
        return text
    value = _literal(text)
    if container in (tuple, list):
        return container(value) if isinstance(value, list | tuple) else container([value])
    return _checked(name, value, hint)


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
    except (ValueError, SyntaxError):
        return text


def _checked(name: str, value: Any, hint: type) -> Any:
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        raise OptionError(f"{name} must be {hint.__name__}, got {value!r}")
    return value
