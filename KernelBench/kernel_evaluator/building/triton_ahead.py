"""Triton's kernels compiled ahead, without a GPU, into a folder that the kernel's process begins with.

Untrusted side but for `lay_out`, which copies files before anything submitted runs. Triton names what it
compiles by all that goes into it: what was compiled for other arguments is not found, and compiled anew.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDER = "triton"
"""Where it lies in a kernel's build."""

_WARP = 32
_LIST = "__grp__"
_CANNOT_BE_LOADED = (ImportError, OSError, RuntimeError, AttributeError, subprocess.SubprocessError)


def compile_instead_of_launching(folder: Path, capability: tuple[int, int]) -> None:
    """From now on have Triton compile for a GPU of that capability what is launched, and keep it in `folder`.

    Of an autotuned kernel all variants. Raises ImportError where this Triton is another than expected.
    """
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.driver import CudaLauncher
    from triton.errors import TritonError
    from triton.runtime import autotuner, driver, jit

    target = GPUTarget("cuda", 10 * capability[0] + capability[1], _WARP)
    run = jit.JITFunction.run

    def compile_only(kernel: Any, *args: Any, grid: Any = None, warmup: bool = True, **kwargs: Any) -> Any:
        compiled = run(kernel, *args, grid=grid, warmup=True, **kwargs)
        with suppress(*_CANNOT_BE_LOADED):  # the C that launches it, which is compiled too
            CudaLauncher(compiled.src, compiled.metadata)
        return compiled

    def every_variant(tuner: Any, *args: Any, **kwargs: Any) -> None:
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        for variant in tuner.prune_configs(kwargs) if len(tuner.configs) > 1 else tuner.configs:
            with suppress(TritonError):  # who tunes passes over what does not compile
                tuner.fn.run(*args, **kwargs, **variant.all_kwargs())

    os.environ["TRITON_CACHE_DIR"] = str(folder)
    driver.set_active(_NoDriver(target))
    jit.JITFunction.run = compile_only
    autotuner.Autotuner.run = every_variant


def lay_out(build: Path | None) -> None:
    """Copy what a build holds of Triton's to where this process will look for it, and may write.

    Triton's list of a kernel's files names them by their folder, so it is written anew.
    """
    if build is None or not (build / FOLDER).is_dir():
        return
    target = Path(os.environ["TRITON_CACHE_DIR"])
    for kernel in sorted((build / FOLDER).iterdir()):
        folder = target / kernel.name
        folder.mkdir(parents=True)
        files = [file for file in kernel.iterdir() if not file.name.startswith(_LIST)]
        for file in files:
            shutil.copyfile(file, folder / file.name)
        for listed in kernel.glob(f"{_LIST}*"):
            paths = {file.name: str(folder / file.name) for file in files}
            (folder / listed.name).write_text(json.dumps({"child_paths": paths}), "utf-8")


class _NoDriver:
    """What Triton asks its driver before it compiles."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _device: int = 0) -> int:
        return 0
