"""The process that compiles one kernel: it confines itself, then executes the kernel's source without a GPU.

Trusted up to `confine`; after that everything in it is the kernel's. Its outcome is a claim about itself.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelbench import sandbox
from kernelbench.extensions import BuildSettings, install, is_compile_error

REQUEST = "request.json"
OUTCOME = "outcome.json"
SCRATCH = "scratch"
COLLECTED = "collected"

_ERROR_CHARACTERS = 64 * 1024


def main() -> int:
    """Run the build that the request on standard input asks for; exit 0 where it came to an outcome."""
    request = json.load(sys.stdin)
    import torch  # noqa: F401 (loaded by the trusted side, before the walls)

    sandbox.become_subreaper()
    own_namespace = sandbox.enter_pid_namespace()
    child = os.fork()
    if child == 0:
        os._exit(_confined(request))
    _, status = os.waitpid(child, 0)
    if not own_namespace:
        sandbox.kill_all(pid for pid in sandbox.descendants(os.getpid()) if pid != os.getpid())
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _confined(request: dict[str, Any]) -> int:
    work = Path(request["work"])
    sandbox.confine(
        sandbox.Cell(
            uid=request["uid"],
            limits=sandbox.Limits(memory_bytes=request["memory_bytes"], file_bytes=request["file_bytes"]),
            readable=[Path(path) for path in request["readable"]],
            writable=[work],
            environment=request["environment"],
        )
    )
    outcome = _build(request, work)
    (work / OUTCOME).write_text(json.dumps(outcome), "utf-8")
    sys.stdout.flush()
    sys.stderr.flush()
    return 0


def _build(request: dict[str, Any], work: Path) -> dict[str, Any]:
    """Execute the kernel's source, and where it builds late also make and call its model, on no data."""
    if request["capability"]:
        _pretend_gpu(tuple(request["capability"]))
    settings = BuildSettings(
        collect=work / COLLECTED, arch=request["arch"], slim_headers=request["slim_headers"]
    )
    headers = install(None, work / SCRATCH, settings)
    try:
        module = _execute(request["source"], Path.cwd() / "kernel_0.py")
        if request["builds_late"]:
            _call_on_no_data(module, request["problem"])
    except BaseException as error:  # noqa: BLE001 (whatever the kernel raises, exits included, is its outcome)
        compile_error = is_compile_error(error)
        text = str(error) if compile_error else traceback.format_exc()
        return {"error": text[-_ERROR_CHARACTERS:], "compile_error": compile_error, "headers": headers}
    return {"error": "", "compile_error": False, "headers": headers}


def _execute(source: str, path: Path) -> ModuleType:
    path.write_text(source, "utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _call_on_no_data(module: ModuleType, problem_source: str) -> None:
    """Make the model and call it with tensors that have a shape and no memory, so that it builds."""
    import torch

    problem: dict[str, Any] = {}
    exec(problem_source, problem)  # noqa: S102 (the problem set's own source)
    with torch.device("meta"), torch.no_grad():
        model = module.ModelNew(*problem["get_init_inputs"]())
        model(*problem["get_inputs"]())


def _pretend_gpu(capability: tuple[int, ...]) -> None:
    """Answer the questions that sources ask before they build; there is no GPU behind them."""
    import torch

    answers = {
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "get_device_capability": capability,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *_args, _answer=answer, **_kwargs: _answer)


if __name__ == "__main__":
    sys.exit(main())
