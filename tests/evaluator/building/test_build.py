"""Real builds in real confined processes. The extensions are tiny, so that each compiles in a second."""

import contextlib
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import compiling
import pytest
from compiling import HEAD, TINY, as_candidate, build, job
from evaluating import command_lines
from kernel_evaluator.building.builder import Builder, BuildStatus
from kernel_evaluator.building.limits import BuildLimits, Waiting

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    with Builder(cache_root=tmp_path_factory.mktemp("cache"), workers=2, arch="", timeout_s=120) as builder:
        yield builder


def test_a_candidate_finds_the_finished_extension_without_a_compiler(
    builder: Builder, tmp_path: Path
) -> None:
    built = build(builder, TINY)
    assert (built.status, built.message) == (BuildStatus.BUILT, "")
    assert "answer 42" in as_candidate(built.cache, TINY, tmp_path).stdout


def test_an_extension_under_a_random_name_is_found(builder: Builder, tmp_path: Path) -> None:
    source = HEAD + "ext = load_inline(f'x{os.getpid()}{time.time_ns()}', CPP, no_implicit_headers=True)\n"
    assert "answer 42" in as_candidate(build(builder, source).cache, source, tmp_path).stdout


def test_a_source_written_to_a_temporary_file_is_found(builder: Builder, tmp_path: Path) -> None:
    source = HEAD + (
        "import tempfile\n"
        "folder = tempfile.mkdtemp()\n"
        "path = os.path.join(folder, 'tiny.cpp')\n"
        "open(path, 'w').write(CPP)\n"
        "ext = load(name='tiny', sources=[path], extra_include_paths=[folder], extra_cflags=['-O1'])\n"
    )
    built = build(builder, source)
    assert built.status is BuildStatus.BUILT
    assert "answer 42" in as_candidate(built.cache, source, tmp_path).stdout


def test_headers_are_found_in_a_folder_that_a_variable_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cutlass").mkdir()
    (tmp_path / "cutlass" / "said.h").write_text("#define SAID 42\n")
    monkeypatch.setenv("CUTLASS_PATH", str(tmp_path / "cutlass"))
    source = HEAD + (
        "own = CPP.replace('42', 'SAID').replace('#include', '#include <said.h>\\n#include', 1)\n"
        "folders = [os.environ['CUTLASS_PATH']]\n"
        "ext = load_inline('tiny', own, no_implicit_headers=True, extra_include_paths=folders)\n"
    )
    with Builder(cache_root=tmp_path / "cache", workers=1, arch="", timeout_s=120) as builder:
        built = build(builder, source)
    assert (built.status, built.message) == (BuildStatus.BUILT, "")


def test_the_cache_may_be_named_from_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Builder(cache_root=Path("cache"), workers=1) as builder:
        assert build(builder, TINY).status is BuildStatus.BUILT


def test_what_is_in_the_cache_is_not_built_again(builder: Builder) -> None:
    first = build(builder, TINY)
    assert first.cache is not None
    with Builder(cache_root=first.cache.parent, workers=1, arch="") as again:
        future = again.submit(job(TINY))
        assert future.done()
        assert future.result().reused
        assert future.result().cache == first.cache


def test_another_target_does_not_share_a_build(builder: Builder) -> None:
    first = build(builder, TINY)
    assert first.cache is not None
    with Builder(cache_root=first.cache.parent, workers=1, arch="9.0a", timeout_s=0.01) as other:
        assert build(other, TINY).status is BuildStatus.FAILED


def test_a_target_may_be_named_by_its_architecture(tmp_path: Path) -> None:
    with Builder(cache_root=tmp_path / "cache", workers=1, arch="Hopper", timeout_s=120) as hopper:
        assert build(hopper, TINY).status is BuildStatus.BUILT


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ('#include "no_such_header.h"', "No such file or directory"),
        ("int f() { return lock(block); }", "lock"),
    ],
)
def test_a_compile_error_keeps_the_compilers_words(
    builder: Builder, tmp_path: Path, line: str, word: str
) -> None:
    source = HEAD + f"ext = load_inline('bad', '''{line}''', no_implicit_headers=True)\n"
    built = build(builder, source)
    assert built.status is BuildStatus.FAILED
    assert word in built.log
    assert "main.cpp:1" in built.log
    assert str(tmp_path.parent) not in built.log
    again = as_candidate(built.cache, source, tmp_path)
    assert word in again.stderr
    assert "nonexistent" not in again.stderr


def test_a_kernel_that_builds_when_its_model_is_made_or_called_is_built(
    builder: Builder, tmp_path: Path
) -> None:
    for method in ("__init__(self)", "forward(self, x)"):
        source = HEAD + (
            "ext = None\n"
            "class ModelNew(torch.nn.Module):\n"
            f"    def {method}:\n"
            "        global ext\n"
            "        torch.nn.Module.__init__(self)\n"
            "        ext = load_inline('late', CPP, no_implicit_headers=True)\n"
        )
        built = build(builder, source)
        assert built.status is BuildStatus.BUILT, method
        argument = "" if "init" in method else ".forward(1)"
        assert "answer 42" in as_candidate(built.cache, source + f"ModelNew(){argument}\n", tmp_path).stdout


def test_headers_that_are_too_slim_give_way_to_the_full_ones(builder: Builder) -> None:
    line = "static auto use = [](at::TensorList list) { return at::device_of(list); };"
    source = HEAD + f"CPP = '#include <ATen/DeviceGuard.h>\\n' + CPP + '{line}'\n" + TINY.removeprefix(HEAD)
    built = build(builder, source)
    assert (built.status, built.headers) == (BuildStatus.BUILT, ("full",)), built.log


def test_an_extension_that_cannot_be_loaded_here_does_not_keep_the_next_from_being_built(
    builder: Builder,
) -> None:
    broken = "CPP.replace('static PyObject*', 'extern int only_with_a_gpu(); static PyObject*', 1)"
    broken += ".replace('42', 'only_with_a_gpu()')"
    source = (
        HEAD + f"first = load_inline('first', {broken}, no_implicit_headers=True)\n" + TINY.removeprefix(HEAD)
    )
    built = build(builder, source)
    assert built.status is BuildStatus.BUILT
    assert {"first.so", "tiny.so"} == {path.name for path in (built.cache or Path()).rglob("*.so")}


def test_a_build_that_fills_the_disk_is_ended(tmp_path: Path) -> None:
    source = (
        HEAD + "while True: open(f'flood{time.time_ns()}', 'wb').write(bytes(64 << 20)); time.sleep(0.05)"
    )
    with Builder(cache_root=tmp_path / "cache", workers=1, arch="", written_gb=0.3) as builder:
        built = build(builder, source)
    assert built.status is BuildStatus.FAILED
    assert "wrote" in built.message


def test_sources_that_compile_nothing_are_done_at_once(builder: Builder) -> None:
    for source in ("import torch\nclass ModelNew: ...", "import triton"):
        future = builder.submit(job(source))
        assert future.done()
        assert future.result().status is BuildStatus.NOT_NEEDED


@pytest.mark.parametrize(
    "line", ["torch.ones(1, device='cuda')", "os._exit(3)", "raise SystemExit(1)", "1/0"]
)
def test_a_source_that_cannot_be_executed_here_is_left_to_the_gpu(builder: Builder, line: str) -> None:
    assert build(builder, HEAD + line).status is BuildStatus.UNKNOWN


def test_a_build_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with Builder(cache_root=tmp_path / "cache", workers=1, arch="", timeout_s=6) as builder:
        built = build(builder, HEAD + "time.sleep(600)")
    assert built.status is BuildStatus.FAILED
    assert "longer than 6 s" in built.message


def test_a_build_that_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    with Builder(cache_root=tmp_path / "cache", workers=1, arch="", memory_gb=0.7) as builder:
        built = build(
            builder, HEAD + "hoard = bytearray(1 << 30)\nhoard[::4096] = b'x' * (1 << 18)\ntime.sleep(60)"
        )
    assert built.status is BuildStatus.FAILED
    assert "memory" in built.message


def test_a_build_cannot_write_where_others_read(builder: Builder) -> None:
    victim = build(builder, TINY).cache
    assert victim is not None
    library = next(victim.rglob("*.so"))
    before = library.read_bytes()
    package = Path(sys.modules["kernel_evaluator"].__file__ or "").parent
    source = HEAD + (
        "def attempt(path):\n"
        "    try:\n"
        "        os.makedirs(os.path.dirname(path), exist_ok=True)\n"
        "        open(path, 'w').write('forged')\n"
        "    except OSError:\n"
        "        pass\n"
        f"for path in {[str(library), str(victim / 'x.so'), str(victim.parent / 'x'), str(package / 'forged')]}:\n"
        "    attempt(path)\n"
    )
    build(builder, source)
    assert library.read_bytes() == before
    if os.geteuid() == 0:
        assert not (victim / "x.so").exists()
        assert not (victim.parent / "x").exists()
        assert not (package / "forged").exists()


def test_a_build_leaves_no_process_behind(builder: Builder, tmp_path: Path) -> None:
    mark = f"left-behind-{os.getpid()}-{time.time_ns()}"
    source = HEAD + (
        "import subprocess\n"
        f"program = [sys.executable, '-c', 'import time; time.sleep(120)', {mark!r}]\n"
        "subprocess.Popen(program, start_new_session=True)\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.execv(sys.executable, program)\n"
        "    os._exit(0)\n"
    )
    build(builder, source)
    assert not [line for line in command_lines() if mark in line]


@pytest.mark.parametrize(
    "left",
    [
        "os.symlink('/etc/passwd', place + '/x.so')",
        "os.mkfifo(place + '/x.so')",
        "os.mkdir(place + '/x.so')",
        "open(place + '/../outside.so', 'w')",
        "os.link(place + '/tiny.so', place + '/second.so')",
    ],
)
def test_only_plain_files_of_its_own_are_taken_from_a_build(builder: Builder, left: str) -> None:
    source = TINY + (
        "import gc\n"
        "settings = next(o for o in gc.get_objects() if type(o).__name__ == 'BuildSettings')\n"
        "place = str(next(settings.collect.iterdir()))\n"
        f"{left}\n"
    )
    built = build(builder, source)
    assert built.status is BuildStatus.FAILED
    assert built.cache is None
    assert "left" in built.message


@pytest.mark.skipif(os.geteuid() != 0, reason="walls that need root")
def test_a_build_runs_as_another_user_without_network_and_secrets(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "secret")
    source = HEAD + (
        "import socket\n"
        "def refused():\n"
        "    try:\n"
        "        socket.create_connection(('127.0.0.1', 22), 1)\n"
        "    except OSError as error:\n"
        "        return isinstance(error, PermissionError)\n"
        "class ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
        "print('seen', os.getuid() >= 60000, 'SOME_TOKEN' in os.environ, refused(), flush=True)\n"
    )
    assert "seen True False True" in build(builder, source).log


def test_a_build_runs_only_where_a_processor_is_idle(builder: Builder) -> None:
    source = HEAD + (
        "class ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
        "print('idle', os.sched_getscheduler(0) == os.SCHED_IDLE, flush=True)\n"
    )
    assert "idle True" in builder.submit(job(source)).result().log


def test_a_build_cannot_type_into_the_terminal_of_the_evaluator(tmp_path: Path) -> None:
    source = HEAD + (
        "class ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
        "try:\n    print('terminal', os.open('/dev/tty', os.O_RDWR), flush=True)\n"
        "except OSError as error:\n    print('no terminal', error.errno, flush=True)\n"
    )
    program = (
        "from pathlib import Path\n"
        "from kernel_evaluator.building.builder import Builder\n"
        "from compiling import build\n"
        f"with Builder(cache_root=Path({str(tmp_path)!r}), workers=1, arch='', timeout_s=120) as builder:\n"
        f"    print(build(builder, {source!r}).log)\n"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["PYTHONPATH"] = os.pathsep.join(
            [str(Path(compiling.__file__).parent), *filter(None, sys.path)]
        )
        os.execv(sys.executable, [sys.executable, "-c", program])
    said = b""
    with contextlib.suppress(OSError):  # how a terminal says that nobody writes to it any more
        while part := os.read(terminal, 4096):
            said += part
    os.waitpid(pid, 0)
    assert b"no terminal" in said


def test_what_a_build_waits_for_a_processor_does_not_count_against_it(tmp_path: Path) -> None:
    busy = "import os, time; os.sched_setaffinity(0, {core}); end = time.time() + 3\nwhile time.time() < end: pass"
    command = [sys.executable, "-c", busy.replace("{core}", f"{{{min(os.sched_getaffinity(0))}}}")]
    waiting, started = Waiting(), time.monotonic()
    with subprocess.Popen(command) as build, subprocess.Popen(command):
        while build.poll() is None:
            waiting.note(build.pid)
            time.sleep(0.1)
    assert 0.5 < waiting.seconds < time.monotonic() - started
    limits = BuildLimits(timeout_s=10)
    assert limits.broken(0, 10 + waiting.seconds - 0.1, waiting.seconds, tmp_path) == ""
    assert "longer than 10 s" in limits.broken(0, 10 + waiting.seconds + 0.1, waiting.seconds, tmp_path)
    assert "longer than 10 s" in limits.broken(0, 41, 1000, tmp_path)


def test_builds_keep_to_as_many_processor_cores_as_there_are_builds_at_once(tmp_path: Path) -> None:
    source = (
        HEAD + "assert len(os.sched_getaffinity(0)) == 1, os.sched_getaffinity(0)\n" + TINY.removeprefix(HEAD)
    )
    with Builder(cache_root=tmp_path / "cache", workers=1, arch="", timeout_s=120) as builder:
        assert build(builder, source).status is BuildStatus.BUILT
