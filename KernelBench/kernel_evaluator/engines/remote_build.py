"""A kernel's finished build on its way from a container that compiles to one that judges. No shared volume.

What a compiling container sends is untrusted: it only ever reaches the container that judges the same kernel,
and only as files of the few names that a build can leave.
"""

from __future__ import annotations

import base64
import json
import re
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from kernel_evaluator.building.store import TRITON_FILE
from kernel_evaluator.engines.wire import read_request, strict_json

ARCH = "9.0a"
"""What the board's reference device takes as TORCH_CUDA_ARCH_LIST; the builder cannot ask a device."""
MAX_FILES = 8192
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_PACKED_BYTES = 1_900_000
"""Of a build on its way; a larger one is left out, and the judging container compiles for itself."""

_NAME = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(rf"build\.json|[0-9a-f]{{64}}/(?:error\.txt|[A-Za-z0-9_.\-]{{1,200}}\.so)|{TRITON_FILE}")

_FOR_READING = (".ttir", ".ttgir", ".llir", ".ptx", ".source")
"""Two thirds of what Triton keeps: what it went through on its way to the code."""

Packed = Mapping[str, str]
"""The files of one build, by their relative path, compressed and in base64."""


class RefusedBuildError(Exception):
    """What a compiling container sent is no build; the message says why."""


def build(request: str) -> str:
    """Compile the kernels of a request and pack what came of them, as `{name: files}`. Never raises."""
    from kernel_evaluator.building.builder import Builder

    try:
        jobs, settings = read_request(request)
        with tempfile.TemporaryDirectory() as root:
            with Builder(
                cache_root=Path(root),
                arch=ARCH,
                precision=settings.precision,
                timeout_s=settings.build_timeout_s,
            ) as builder:
                built = [future.result() for future in [builder.submit(job) for job in jobs]]
            folders = {item.cache for item in built if item.cache is not None}
            return _within_limit({folder.name: pack(folder) for folder in folders})
    except Exception as error:  # noqa: BLE001 - whatever breaks costs a build in advance, and must not be pickled
        return json.dumps({"fault": f"{type(error).__name__}: {error}"[:500]})


def pack(folder: Path) -> Packed:
    """Pack the plain files of a finished build, but for what Triton keeps to be read by people alone."""
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and path.suffix not in _FOR_READING
    )
    return {
        path.relative_to(folder).as_posix(): base64.b64encode(zlib.compress(path.read_bytes())).decode()
        for path in files
    }


def read_builds(text: object) -> dict[str, Packed]:
    """Read what `build` says; raise RefusedBuildError where it is anything else."""
    data = strict_json(text, RefusedBuildError)
    if not isinstance(data, dict) or "fault" in data:
        raise RefusedBuildError(str(data)[:200])
    for name, files in data.items():
        if not _NAME.fullmatch(name) or not isinstance(files, dict) or len(files) > MAX_FILES:
            raise RefusedBuildError(f"{name[:80]!r} is no build")
        for path, content in files.items():
            if not _FILE.fullmatch(path) or not isinstance(content, str):
                raise RefusedBuildError(f"a build has no file {path[:80]!r}")
    return data


def unpack(builds: Mapping[str, Packed], root: Path) -> None:
    """Lay builds out as a cache under `root`; raise RefusedBuildError for a broken file."""
    for name, files in builds.items():
        for path, content in files.items():
            if not _NAME.fullmatch(name) or not _FILE.fullmatch(path):
                raise RefusedBuildError(f"a build has no file {path[:80]!r}")
            target = root / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(_unzip(content))
            target.chmod(0o555 if path.endswith(".so") else 0o444)


def _unzip(content: str) -> bytes:
    reader = zlib.decompressobj()
    try:
        data = reader.decompress(base64.b64decode(content, validate=True), MAX_FILE_BYTES)
    except (ValueError, zlib.error) as error:
        raise RefusedBuildError(f"a file of a build is broken: {error}") from error
    if reader.unconsumed_tail or not reader.eof:
        raise RefusedBuildError(
            f"a file of a build has more than {MAX_FILE_BYTES:,} bytes, or its end is missing"
        )
    return data


def _within_limit(builds: Mapping[str, Packed]) -> str:
    text = json.dumps(builds)
    return text if len(text) <= MAX_PACKED_BYTES else json.dumps({})
