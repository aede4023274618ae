"""Keeps Modal's client from loading what a container says as a pickle, by patching one private function.

The client loads results and exceptions in the format that the answer names; a pickle runs code in the caller.
While the guard is up, only a short CBOR text is let through; a remote exception is reduced to its words.
The contract test proves both, so a client that changes its insides fails a test and not an evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MAX_RESULT_BYTES = 2 * 1024 * 1024
_CBOR_TEXT = 3
_PATCHED_MODULES = ("parallel_map", "_functions")


class HostileResultError(Exception):
    """A container answered with something other than a short text."""


@contextmanager
def only_text_results() -> Iterator[None]:
    """Let only short texts through as results, for as long as the context lasts."""
    from importlib import import_module

    from modal._utils import function_utils

    original = function_utils._process_result

    async def guarded(result: Any, data_format: int, stub: Any, client: Any = None) -> Any:
        return await original(_checked(result, data_format), data_format, stub, client)

    modules = [import_module(f"modal.{name}") for name in _PATCHED_MODULES]
    for module in modules:
        if getattr(module, "_process_result", None) is not original:
            raise RuntimeError(f"{module.__name__} is not the client that the guard was written for")
    try:
        for module in modules:
            module._process_result = guarded  # type: ignore[attr-defined]
        yield
    finally:
        for module in modules:
            module._process_result = original  # type: ignore[attr-defined]


def _checked(result: Any, data_format: int) -> Any:
    """Give the result if its data is a CBOR text, or without data if it tells of a failure."""
    from modal_proto import api_pb2

    if result.status != api_pb2.GenericResult.GENERIC_STATUS_SUCCESS:
        words = result.exception[:500]
        return api_pb2.GenericResult(status=result.status, exception=words)
    if result.WhichOneof("data_oneof") == "data_blob_id":
        raise HostileResultError("a result came as a blob: larger than any honest answer")
    if len(result.data) > MAX_RESULT_BYTES:
        raise HostileResultError(
            f"a result must be at most {MAX_RESULT_BYTES:,} bytes, got {len(result.data):,}"
        )
    is_text = bool(result.data) and result.data[0] >> 5 == _CBOR_TEXT
    if data_format != api_pb2.DATA_FORMAT_CBOR or not is_text:
        raise HostileResultError("a result must be a CBOR text: something else was refused unread")
    return result
