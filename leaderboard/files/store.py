"""Result files on disk: strict reading, the one layout they are written in, their places, and locks.

Knows formats and paths only. What a file says is judged by `record`.
"""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from kernel_evaluator.records.rows import Environment, ResultFile

from leaderboard.files.typed import typed, without_mark
from leaderboard.texts.inert import encodable

T = TypeVar("T")

RECORDED = ("audits", "history", "results", "reviews", "spending", "notices.json", "struck.json")
"""A board's data: the folders and files that its site is made of."""
MAX_RESULT_BYTES = 64 * 1024 * 1024
_LONGEST_INTEGER = 20
"""Digits and sign of an integer of 64 bits."""


class StoreError(Exception):
    """A file that cannot be read as what it should be, or is in use. The message is for a person."""


def read_strictly(path: Path, max_bytes: int = MAX_RESULT_BYTES) -> Any:
    """Read JSON, refusing repeated keys, NaN, Infinity, numbers of more than 64 bits and all but UTF-8."""
    size = path.stat().st_size
    if size > max_bytes:
        raise StoreError(f"{path}: must be at most {max_bytes:,} bytes, got {size:,}")
    try:
        text = without_mark(path.read_bytes().decode("utf-8"))
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_bounded,
        )
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path}: not strict JSON: {error}") from error


def read_list(path: Path, what: str, kind: type[T]) -> tuple[T, ...]:
    """Read a list of objects, each made of its fields; nothing where there is no file.

    Raises StoreError where it is not `what`, as in "a queue"; it names the item by its number, from 1.
    """
    if not path.is_file():
        return ()
    found = read_strictly(path)
    try:
        if not isinstance(found, list):
            raise ValueError(f"it must hold a list, got {type(found).__name__}")
        return tuple(typed(kind, item, f"item {number}") for number, item in enumerate(found, 1))
    except ValueError as error:
        raise StoreError(f"{path}: not {what}: {error}") from error


def write_list(path: Path, items: Iterable[Mapping[str, Any]]) -> None:
    """Write a list that `read_list` reads, one object a line."""
    write_atomically(path, "[\n" + ",\n".join(map(_line, items)) + "\n]\n")


def read_result(path: Path) -> ResultFile:
    """Read a result file that is trusted to be ours; raise StoreError where it is broken."""
    return parse_result(read_strictly(path), path)


def parse_result(data: Any, path: Path) -> ResultFile:
    """Build the record from JSON values; raise StoreError naming the file and the rule."""
    if not isinstance(data, dict):
        raise StoreError(f"{path}: not a result file: it must hold an object, got {type(data).__name__}")
    if "schema_version" not in data and "kernels" in data:
        raise StoreError(f"{path}: not a result file but a submission; kbl evaluate makes a result of it")
    try:
        return ResultFile.from_json(data)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"{path}: not a result file: {error}") from error


def result_path(root: Path, board: str, entry: str) -> Path:
    """Where a result lives: under `data/results` when recorded, under `build/evaluations` while it grows."""
    return root / board / f"{entry}.json"


def recorded_path(data: Path, board: str, entry: str) -> Path:
    """Where the current revision of a recorded result lives."""
    return result_path(data / "results", board, entry)


def history_path(data: Path, board: str, entry: str, revision: int) -> Path:
    """Where an old revision stays readable."""
    return history_folder(data, board, entry) / f"{revision}.json"


def history_folder(data: Path, board: str, entry: str) -> Path:
    """Where all of an entry's old revisions are."""
    return data / "history" / board / entry


def require_data(data: Path, submissions: Path) -> None:
    """Raise StoreError where a folder is not that of a board's data: nobody means it for an empty board.

    A board without results has none, or an empty one. So `data` beside its submissions may be missing.
    """
    if data.exists() and not data.is_dir():
        raise StoreError(f"--data must be a folder, {data} is a file")
    if not data.is_dir() and not (data == Path("data") and submissions.is_dir()):
        raise StoreError(
            f"--data must be the folder of recorded results, and there is no folder {data}; "
            "name another, or run this in a checkout of the board"
        )
    names = {path.name for path in data.iterdir()} if data.is_dir() else set()
    held = {name for name in names if name != "README.md" and not name.startswith(".")}
    if held and held.isdisjoint(RECORDED):
        parts = ", ".join(RECORDED)
        raise StoreError(f"--data must be the folder of recorded results, and {data} has none of {parts}")


def recorded_results(data: Path) -> list[ResultFile]:
    """Read every current result; raise StoreError where content and path disagree."""
    return [in_its_place(read_result(path), path) for path in sorted((data / "results").glob("*/*.json"))]


def in_its_place(result: ResultFile, path: Path) -> ResultFile:
    """Give the result back; raise StoreError where its path says another board or entry."""
    if (result.board, result.entry) != (path.parent.name, path.stem):
        raise StoreError(f"{path}: says it is {result.board}/{result.entry}; the path must say the same")
    return result


def dump_result(result: ResultFile) -> str:
    """Write the file's text: fields in a fixed order, one environment and one row a line, a final newline."""
    values = result.to_json()
    environments = values.pop("environments")
    rows = values.pop("rows")
    head = [f"  {json.dumps(name)}: {_line(value)}" for name, value in sorted(values.items())]
    named = [f"    {json.dumps(name)}: {_line(value)}" for name, value in sorted(environments.items())]
    listed = [f"    {_line(_without_non_finite(row))}" for row in rows]
    parts = [*head, _block("environments", named, "{}"), _block("rows", listed, "[]")]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def environment_name(environment: Environment) -> str:
    """Give the short digest that rows name their environment by."""
    text = _line(dataclasses.asdict(environment))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def write_atomically(path: Path, text: str) -> None:
    """Replace the file in one step, so that a reader or a crash never sees half of it.

    What a killed writer left beside it is written over. Of several at once each writes, one after the other.
    A link is replaced, not what it names. Raises OSError where a device or a pipe is there.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "must be a file, and something else is there", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    descriptor = -1
    with naming(path):
        try:
            descriptor = _opened_alone(temporary)
            os.ftruncate(descriptor, 0)
            with os.fdopen(os.dup(descriptor), "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(descriptor)
            os.fchmod(descriptor, 0o644)
            temporary.replace(path)
        finally:
            if descriptor >= 0:
                if _is_at(descriptor, temporary):
                    temporary.unlink()
                os.close(descriptor)


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """Give a neighbour to write to, which then takes the file's place: the file is there whole or not at all.

    For what a library writes, or many files in a row; what must outlive a crash goes by `write_atomically`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    with naming(path):
        try:
            yield temporary
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Have an OSError name the file that was to be written: a full disk names none."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def _opened_alone(path: Path) -> int:
    """Open a file to write, made where it is not there, as the only one who does; wait for others."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)  # whoever had it has renamed it


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the only right to write `path`; raise StoreError where another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as stream:
        _lock(stream.fileno(), path)
        yield


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold the only right to write under `folder`, made where it is not there; else as `locked`.

    Leaves no file behind.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StoreError(f"{path}: another process is writing it; wait for it or stop it") from error


def _line(value: Any) -> str:
    return encodable(json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False))


def _block(name: str, lines: list[str], brackets: str) -> str:
    body = "\n" + ",\n".join(lines) + "\n  " if lines else ""
    return f"  {json.dumps(name)}: {brackets[0]}{body}{brackets[1]}"


def _without_non_finite(row: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: a figure that is not finite is left out, inside evidence it becomes a word."""
    known = {name: value for name, value in row.items() if not _is_non_finite(value)}
    if "evidence" in known:
        known["evidence"] = _in_words(known["evidence"])
    return known


def _in_words(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _in_words(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_in_words(item) for item in value]
    return str(value) if _is_non_finite(value) else value


def _is_non_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the key {name!r} stands twice in one object")
        found[name] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _bounded(text: str) -> int:
    if len(text) > _LONGEST_INTEGER:
        raise ValueError(f"the number {text[:40]} is too large")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is too large")
    return value
