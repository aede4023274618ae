"""Stands before PyTorch's `load_inline` and `load` where a kernel runs, and finds what was built.

Untrusted side: it runs where the kernel runs, and only ever saves time. An extension's key is made of what
goes into it, not of its name or of the folder it is written to, so that a name with a random part is found.
Where nothing finished is found, PyTorch's own function builds, with slimmer headers first.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import inspect
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from kernel_evaluator.building.headers import write_slim

ERROR_FILE = "error.txt"
MAX_ERROR_BYTES = 64 * 1024

_LOADERS = ("load_inline", "load")
_NOT_IN_KEY = {"name", "build_directory", "verbose", "keep_intermediates", "use_pch"}
_ENVIRONMENT_IN_KEY = (
    "TORCH_CUDA_ARCH_LIST",
    "PYTORCH_ROCM_ARCH",
    "CXX",
    "CC",
    "CUDA_HOME",
    "CPLUS_INCLUDE_PATH",
)
_FIRST_WITH_SPECIFICS = 9
_MAX_SOURCE_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True)
class BuildSettings:
    """How the build stage compiles: where it lays out what is finished, the target, and which headers."""

    collect: Path | None = None
    arch: str = ""
    slim_headers: bool = True


def install(cache: Path | None, scratch: Path, settings: BuildSettings | None = None) -> list[str]:
    """Replace PyTorch's loaders for good; call it before the kernel's source is executed.

    `cache` holds finished extensions as `<key>/<name>.so` and is only read; what it lacks is built under
    `scratch`. Gives a list that names, for each build to come, the headers it took: `slim` or `full`.
    """
    from torch.utils import cpp_extension

    given = {name: os.environ.get(name) for name in _ENVIRONMENT_IN_KEY}
    headers: list[str] = []
    for kind in _LOADERS:
        original = getattr(cpp_extension, kind)
        loader = _Loader(kind, original, cache, scratch, settings or BuildSettings(), given, headers)
        setattr(cpp_extension, kind, loader.as_function())
    return headers


@dataclass(frozen=True)
class _Loader:
    kind: str
    original: Callable[..., Any]
    cache: Path | None
    scratch: Path
    settings: BuildSettings
    given: Mapping[str, str | None]
    headers: list[str]

    def as_function(self) -> Callable[..., Any]:
        """Give a function with the original's name, signature and documentation."""

        @functools.wraps(self.original)
        def load(*args: Any, **kwargs: Any) -> Any:
            bound = inspect.signature(self.original).bind(*args, **kwargs)
            bound.apply_defaults()
            return self._load(bound.arguments)

        return load

    def _load(self, arguments: dict[str, Any]) -> Any:
        if arguments.get("is_standalone"):
            return self.original(**arguments)
        texts = _source_texts(self.kind, arguments)
        chosen = {
            name: os.environ.get(name) for name in self.given if os.environ.get(name) != self.given[name]
        }
        key = content_key(self.kind, arguments, texts, chosen)
        for shelf in (self.cache, self.settings.collect):
            if shelf is not None and (shelf / key).is_dir():
                return _take(shelf / key, arguments)
        try:
            library = self._build(key, arguments, texts)
        except RuntimeError as error:
            if is_compile_error(error) and self.settings.collect is not None:
                _keep_error(self.settings.collect / key, str(error))
            raise
        if self.settings.collect is None:
            return _import_library(library, arguments)
        (self.settings.collect / key).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library, self.settings.collect / key / library.name)
        try:
            return _import_library(library, arguments)
        except (ImportError, OSError) as error:
            return _Unloaded(str(error))

    def _build(self, key: str, arguments: dict[str, Any], texts: Mapping[str, str]) -> Path:
        """Build with slim headers, and with the full ones where that fails; give the library's path."""
        from torch.utils import cpp_extension

        self.scratch.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{key[:12]}-", dir=self.scratch))
        cuda = "\n".join(text for name, text in texts.items() if name.endswith((".cu", ".cuh")))
        cpp = "\n".join(text for name, text in texts.items() if not name.endswith((".cu", ".cuh")))
        include = Path(cpp_extension.__file__).resolve().parent.parent / "include"
        slim = write_slim(folder / "include", include, cpp, cuda) if self.settings.slim_headers else None
        if slim is not None:
            try:
                library = self._run(arguments, folder / "slim", slim)
            except RuntimeError as error:
                if not is_compile_error(error):
                    raise
                cpp_extension.JIT_EXTENSION_VERSIONER.entries.pop(arguments["name"], None)
                shutil.rmtree(folder / "slim", ignore_errors=True)
            else:
                self.headers.append("slim")
                return library
        self.headers.append("full")
        return self._run(arguments, folder / "full", None)

    def _run(self, arguments: dict[str, Any], directory: Path, headers: Path | None) -> Path:
        """Let PyTorch compile in `directory`, without importing what comes out."""
        from torch.utils import cpp_extension

        directory.mkdir(parents=True)
        before = {name: os.environ.get(name) for name in ("CPATH", "TORCH_CUDA_ARCH_LIST")}
        importing = cpp_extension._import_module_from_library
        mine = copy.deepcopy({**arguments, "build_directory": str(directory)})
        if "use_pch" in mine:
            mine["use_pch"] = False  # it would write into PyTorch's own folder
        try:
            if headers is not None:
                os.environ["CPATH"] = os.pathsep.join(filter(None, [str(headers), before["CPATH"]]))
            arch = self.settings.arch or _device_arch()
            if arch:
                os.environ.setdefault("TORCH_CUDA_ARCH_LIST", arch)
            cpp_extension._import_module_from_library = _library_path
            return Path(self.original(**mine))
        finally:
            cpp_extension._import_module_from_library = importing
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


class _Unloaded:
    """Stands for an extension that cannot be loaded without a GPU, so that the next is built too."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __getattr__(self, name: str) -> Any:
        raise ImportError(f"{name} cannot be called here: {self._reason}")


def target_arch(capability: tuple[int, int]) -> str:
    """Name a device for TORCH_CUDA_ARCH_LIST.

    From Hopper on it carries the `a` without which the newest instructions (wgmma) do not assemble.
    """
    major, minor = capability
    return f"{major}.{minor}{'a' if major >= _FIRST_WITH_SPECIFICS else ''}"


def _device_arch() -> str:
    import torch

    if torch.version.cuda is None or not torch.cuda.is_available():
        return ""
    return target_arch(torch.cuda.get_device_capability())


def content_key(
    kind: str, arguments: Mapping[str, Any], texts: Mapping[str, str], chosen: Mapping[str, Any]
) -> str:
    """Digest everything that goes into an extension; folders of the kernel's own count by what lies in them.

    `arguments` are the loader's, complete; `texts` the sources under the names they are compiled as;
    `chosen` the environment variables that the kernel itself set.
    """
    import torch

    folders = {str(Path(source).parent) for source in _listed(arguments.get("sources"))} | {str(Path.cwd())}
    others = {
        name: value for name, value in arguments.items() if name not in _NOT_IN_KEY and "sources" not in name
    }
    facts = {
        "kind": kind,
        "texts": dict(texts),
        "arguments": {name: _plain(value, folders) for name, value in others.items()},
        "environment": dict(chosen),
        "versions": [torch.__version__, str(torch.version.cuda), sys.version],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def _source_texts(kind: str, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The sources under the names they are compiled as; those of `load` are read from their files."""
    if kind == "load_inline":
        parts = {"main.cpp": "cpp_sources", "cuda.cu": "cuda_sources", "sycl.sycl": "sycl_sources"}
        return {name: "\n".join(_listed(arguments.get(field))) for name, field in parts.items()}
    texts = {}
    for number, source in enumerate(_listed(arguments.get("sources"))):
        with Path(source).open("rb") as file:
            texts[f"{number}-{Path(source).name}"] = file.read(_MAX_SOURCE_BYTES).decode("utf-8", "replace")
    return texts


def _listed(value: object) -> list[str]:
    if value is None:
        return []
    return [os.fspath(value)] if isinstance(value, str | os.PathLike) else [os.fspath(item) for item in value]  # type: ignore[attr-defined]


def _plain(value: object, folders: set[str]) -> object:
    """Write an argument as JSON values, with temporary folders and those of the sources by a common name."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item, folders) for name, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item, folders) for item in value]
    if isinstance(value, bool | int | None):
        return value
    text = str(value)
    for folder in sorted(folders - {"/", "."}, key=len, reverse=True):
        text = text.replace(folder, "<sources>")
    return re.sub(re.escape(tempfile.gettempdir()) + r"/[^/\s]+", "<temporary>", text)


def is_compile_error(error: BaseException) -> bool:
    """Whether the compiler refused the source, as against a machine that lacks a tool."""
    return isinstance(error, RuntimeError) and str(error).startswith("Error building extension")


def _keep_error(shelf: Path, text: str) -> None:
    shelf.mkdir(parents=True, exist_ok=True)
    (shelf / ERROR_FILE).write_bytes(text.encode("utf-8", "replace")[-MAX_ERROR_BYTES:])


def _take(shelf: Path, arguments: Mapping[str, Any]) -> Any:
    """Import the finished extension, or raise the error that its build ended in."""
    libraries = sorted(shelf.glob("*.so"))
    if not libraries:
        raise RuntimeError((shelf / ERROR_FILE).read_text("utf-8", "replace"))
    named = [library for library in libraries if library.stem == arguments["name"]]
    return _import_library((named or libraries)[0], arguments)


def _import_library(library: Path, arguments: Mapping[str, Any]) -> Any:
    from torch.utils import cpp_extension

    load = cast(Callable[..., Any], cpp_extension._import_module_from_library)
    return load(library.stem, str(library.parent), arguments["is_python_module"])


def _library_path(name: str, path: str, _is_python_module: bool) -> str:
    """Stand in for the import while PyTorch builds: give the library's path instead."""
    return str(Path(path) / f"{name}.so")
