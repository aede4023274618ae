"""The walls around untrusted code, tried from inside by a process that wants out.

Each test forks a confined process that attempts one thing and says what came of it.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from kernel_evaluator.walls import sandbox, syscalls

ROOT = Path(__file__).resolve().parents[3]
TRIED = {"mount", "sethostname", "shmget", "add_key", "process_vm_readv", "io_uring_setup"}
"""What the process itself calls to see that it is refused."""

PROBE = """
import ctypes, json, os, resource, signal, socket, struct, subprocess, sys
from types import SimpleNamespace
sys.path[:] = {path!r}
from pathlib import Path
from kernel_evaluator.walls import sandbox

sandbox.enter_pid_namespace()
{room}
child = os.fork()
if child == 0:
    uid = sandbox.FIRST_UID + 4242
    cell = sandbox.Cell(uid=uid, limits=sandbox.Limits(processes=64, file_bytes=1 << 20), readable={readable!r},
                        writable={writable!r}, environment={{"PATH": os.environ["PATH"]}}, stands_back={stands_back!r})
    real = sandbox._libc
    {pretence}
    walls = sandbox.confine(cell)
    def attempt(what):
        try:
            return {{"value": what()}}
        except OSError as error:
            return {{"error": type(error).__name__}}
    said = attempt(lambda: {attempt})
    os.write({out}, json.dumps({{"walls": walls, **said}}).encode())
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.fixture
def ask(tmp_path):
    """Give what an expression is inside a cell, or the name of its OSError; skip where a wall is missing."""

    def run(attempt, *needed, readable=(), writable=(), stands_back=False, room="", pretence="pass"):
        read_end, write_end = os.pipe()
        code = PROBE.format(
            path=[str(Path(p).resolve()) for p in sys.path],
            readable=[*readable],
            writable=[*writable],
            attempt=attempt,
            stands_back=stands_back,
            room=room,
            pretence=pretence,
            out=write_end,
        ).replace("PosixPath", "Path")
        ended = subprocess.run(
            [sys.executable, "-c", code],
            check=False,
            pass_fds=[write_end],
            env={**os.environ, "SECRET": "token"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        os.close(write_end)
        with os.fdopen(read_end) as pipe:
            text = pipe.read()
        assert text, ended.stderr
        said = json.loads(text)
        missing = [wall for wall in needed if wall not in said["walls"]]
        if missing:
            pytest.skip(f"this machine raises no wall of the kind {', '.join(missing)} (it takes root)")
        return said.get("value", said.get("error"))

    return run


def test_there_is_no_network_and_no_socket_but_unix_ones(ask):
    assert ask("socket.socket(socket.AF_INET) and 'a socket'", "seccomp") == "PermissionError"
    assert (
        ask("socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) and 'a socket'", "seccomp")
        == "PermissionError"
    )
    assert ask("len(socket.socketpair())") == 2


def test_the_interfaces_of_the_machine_are_not_there(ask):
    lines = ask("open('/proc/net/dev').read().splitlines()", "network", "mount")
    assert [line.split(":")[0].strip() for line in lines if ":" in line] == ["lo"]


def test_another_users_files_cannot_be_read(ask, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("token")
    secret.chmod(0o600)
    assert ask(f"open({str(secret)!r}).read()", "uid") in ("PermissionError", "FileNotFoundError")
    assert ask("open('/etc/shadow').read()", "uid") in ("PermissionError", "FileNotFoundError")


def test_it_is_nobody_with_no_way_back(ask):
    assert ask("os.getresuid()", "uid") == [sandbox.FIRST_UID + 4242] * 3
    assert ask("os.getgroups()", "uid") == []
    assert ask("os.setuid(0) or 'root'", "uid") == "PermissionError"
    assert ask("ctypes.CDLL(None).prctl(39, 0, 0, 0, 0)", "no-new-privileges") == 1


INHERITS = """
header, held = struct.pack("<Ii", 0x20080522, 0), bytes(24)
ctypes.CDLL(None).capget(header, held)
effective, permitted, _, *high = struct.unpack("<6I", held)
asked = struct.pack("<6I", effective, permitted, permitted, high[0], high[1], high[1])
if ctypes.CDLL(None).capset(header, asked) != 0:
    sys.exit("no capability to inherit")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to inherit")
def test_it_inherits_no_capability_of_a_container(ask):
    lines = "[line.split() for line in open('/proc/self/status') if line.startswith('Cap')]"
    held = dict(ask(lines, room=INHERITS))
    assert {int(held[kind], 16) for kind in ("CapInh:", "CapPrm:", "CapEff:")} == {0}


def test_processes_outside_can_be_neither_seen_nor_signalled(ask):
    outside = os.getpid()
    assert ask("sorted(int(n) for n in os.listdir('/proc') if n.isdigit())", "pid", "mount") == [1]
    assert ask(f"os.kill({outside}, signal.SIGTERM) or 'sent'", "pid") == "ProcessLookupError"
    assert ask("os.kill(os.getppid() or 2, signal.SIGTERM) or 'sent'", "pid") == "ProcessLookupError"


def test_other_processes_cannot_be_traced(ask):
    assert ask("ctypes.CDLL(None).ptrace(0, 0, 0, 0)", "seccomp") == -1
    assert ask("ctypes.CDLL(None).process_vm_readv(1, 0, 0, 0, 0, 0)", "seccomp") == -1


def test_mounting_is_refused(ask):
    call = "ctypes.CDLL(None).mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None)"
    assert ask(call, "seccomp") == -1


@pytest.mark.parametrize("folder", ["/tmp", "/var/tmp", "/dev/shm"])
def test_temporary_folders_are_its_own(ask, folder):
    name = f"from-a-cell-{os.getpid()}"
    mine = Path(folder) / f"from-outside-{os.getpid()}"
    mine.write_text("mine")
    try:
        assert ask(f"Path({folder!r}, {name!r}).write_text('left')", "mount") == 4
        assert ask(f"os.path.exists({str(mine)!r})", "mount") is False
    finally:
        mine.unlink()
    assert not Path(folder, name).exists()


def test_its_home_is_private_and_its_environment_says_nothing(ask):
    assert ask("os.environ.get('SECRET', 'nothing')") == "nothing"
    assert ask("(Path.home() == Path.cwd(), oct(os.stat('.').st_mode & 0o777))") == [True, "0o700"]
    assert ask(
        "all(os.environ[n].startswith(os.environ['HOME']) for n in ('TMPDIR', 'TRITON_CACHE_DIR', 'CUDA_CACHE_PATH'))"
    )


def test_temporary_files_lie_in_its_home_though_others_were_made_before(ask):
    made = "__import__('tempfile').mkdtemp().startswith(os.environ['HOME'])"
    assert ask(made, pretence="__import__('tempfile').gettempdir()")


def test_what_it_may_read_it_may_not_write(ask, tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "built").write_text("here")
    folder.chmod(0o777)
    inside = f"Path({str(folder)!r})"
    assert ask(f"({inside} / 'built').read_text()", "mount", "uid", readable=[folder]) == "here"
    assert ask(f"({inside} / 'more').write_text('x')", "mount", "uid", readable=[folder]) in (
        "OSError",
        "PermissionError",
    )
    assert sorted(path.name for path in folder.iterdir()) == ["built"]


def test_a_program_that_lies_in_a_temporary_folder_itself_does_not_open_it(ask):
    mine = Path("/tmp") / f"from-outside-{os.getpid()}"
    mine.write_text("mine")
    try:
        readable = [Path("/tmp")]
        assert ask("Path.cwd().joinpath('x').write_text('left')", "mount", readable=readable) == 4
        assert ask(f"os.path.exists({str(mine)!r})", "mount", readable=readable) is False
    finally:
        mine.unlink()


def test_what_it_may_write_is_there_afterwards(ask, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    folder.chmod(0o777)
    assert ask(f"Path({str(folder)!r}, 'made').write_text('x')", "mount", "uid", writable=[folder]) == 1
    assert (folder / "made").read_text() == "x"


def test_what_it_may_write_can_lie_within_what_is_readable_and_below_a_closed_folder(ask, tmp_path):
    closed = tmp_path / "seen" / "closed"
    folder = closed / "out"
    folder.mkdir(parents=True)
    closed.chmod(0o700)
    folder.chmod(0o777)
    written = f"Path({str(folder)!r}, 'made').write_text('x')"
    assert ask(written, "mount", "uid", readable=[tmp_path / "seen"], writable=[folder]) == 1
    assert (folder / "made").read_text() == "x"


def test_files_processes_and_dumps_are_limited(ask):
    assert ask("resource.getrlimit(resource.RLIMIT_FSIZE)[0]") == 1 << 20
    assert ask("resource.getrlimit(resource.RLIMIT_CORE)[1]") == 0
    assert ask("resource.getrlimit(resource.RLIMIT_NPROC)[1]", "uid") == 64


def test_a_family_is_found_measured_and_killed():
    code = (
        "import subprocess, sys; print(subprocess.Popen(['sleep', '500']).pid, flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], text=True, **pipes) as parent:
        child = int(parent.stdout.readline())
        family = sandbox.descendants(parent.pid)
        assert family == [parent.pid, child]
        assert sandbox.held_bytes(family) > sandbox.held_bytes([child]) > 0
        sandbox.kill_all(family)
        assert parent.wait(20) == -signal.SIGKILL
    deadline = time.monotonic() + 20
    with suppress(FileNotFoundError, ProcessLookupError):  # gone between two looks
        while Path(f"/proc/{child}/cmdline").read_bytes():
            assert time.monotonic() < deadline
            time.sleep(0.01)


RESTLESS = """
import subprocess, threading
children = [subprocess.Popen(["sleep", "500"]).pid for _ in range(3)]
def turn():
    while True:
        brief = [threading.Thread(target=int) for _ in range(20)]
        for each in brief: each.start()
        for each in brief: each.join()
for _ in range(20): threading.Thread(target=turn).start()
print(*children, flush=True)
"""


def test_a_family_is_found_though_threads_end_while_it_is_looked_for():
    pipes = {"stdout": subprocess.PIPE, "start_new_session": True}
    with subprocess.Popen([sys.executable, "-c", RESTLESS], text=True, **pipes) as parent:
        try:
            children = {int(pid) for pid in parent.stdout.readline().split()}
            looks = [children <= set(sandbox.descendants(parent.pid)) for _ in range(100)]
            assert looks.count(True) == len(looks)
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


def test_counting_and_killing_what_is_gone_is_no_error():
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert sandbox.held_bytes([ended.pid]) == 0
    sandbox.kill_all([ended.pid])


WRITABLE = """(lambda tried: [(tried.append(1), folder)[1] for folder, below, _ in os.walk('/')
    if not folder.startswith(('/proc/1/', '/proc/self/', '/proc/thread-self/'))
    and (os.access(folder, os.W_OK) or not isinstance(attempt(lambda: os.mkfifo(folder + '/probe')).get('error'), str))])([])"""


def test_nothing_can_be_written_but_its_own_folders(ask):
    """The whole tree is walked; in each folder something is made."""
    assert sorted(ask(WRITABLE, "root", "uid")) == ["/dev/shm", "/tmp", "/tmp/cell-1", "/var/tmp"]


FILES = """[path for folder, _, files in os.walk('/') for path in (os.path.join(folder, name) for name in files)
    if not path.startswith(('/proc/1/', '/dev/', '/tmp/')) and not os.path.islink(path) and os.access(path, os.W_OK)]"""

HARMLESS = ("/proc/pressure/", "/proc/sys/kernel/ns_last_pid")
"""What Linux lets everybody open for writing: to be told of scarcity, and what is the namespace's own."""


def test_no_file_of_the_machine_can_be_written(ask):
    assert [path for path in ask(FILES, "root", "uid") if not path.startswith(HARMLESS)] == []


def test_only_what_a_kernel_needs_is_there(ask):
    named = {"bin", "dev", "etc", "lib", "proc", "tmp", "usr", "var"}
    there = set(ask("os.listdir('/')", "root"))
    assert named - {"bin", "lib"} <= there
    assert not {"run", "mnt", "media", "boot"} & there
    assert set(ask("os.listdir('/var')", "root")) == {"tmp"}
    devices = {"null", "zero", "full", "random", "urandom", "shm", "fd", "stdin", "stdout", "stderr"}
    assert {name for name in ask("os.listdir('/dev')", "root") if "nvidia" not in name} - {
        "dri",
        "kfd",
    } == devices


def test_a_socket_of_the_host_cannot_be_reached(ask):
    path = f"/run/lock/listens-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        Path(path).chmod(0o777)
        listener.listen()
        reached = ask(f"socket.socket(socket.AF_UNIX).connect({path!r}) or 'reached'", "root")
    Path(path).unlink()
    assert reached == "FileNotFoundError"


OWN_ROOM = """
libc = ctypes.CDLL(None, use_errno=True)
was = os.stat("/proc/self/ns/mnt").st_ino
if libc.unshare(0x4C020000) != 0 or os.stat("/proc/self/ns/mnt").st_ino == was:
    sys.exit("no room of its own to lie in")
for arguments in ((b"none", b"/", None, 16384 | 1 << 18, None), (b"none", b"/tmp", b"tmpfs", 0, None)):
    if libc.mount(*arguments) != 0:
        sys.exit("no mounts of its own to lie about")
"""
"""A wall that only seems to stand is raised in namespaces made for the test: this machine must not notice."""

LIES = {
    "unshare that does nothing": (
        "sandbox._libc = SimpleNamespace(unshare=lambda flag: 0, prctl=real.prctl, capset=real.capset)",
        {"ipc", "mount", "network", "root", "uts"},
    ),
    "mounts that do nothing": ("sandbox.root._mount = lambda *_: None", {"mount", "root"}),
    "a filter that does nothing": ("sandbox.syscalls.refuse = lambda without: True", {"seccomp"}),
    "a uid that stays": ("os.setresuid = lambda *_: None", {"uid"}),
    "a network that stays": ("sandbox.probes.reaches_out = lambda: True", {"network"}),
    "rights that can be gained": (
        "sandbox._libc = SimpleNamespace(unshare=real.unshare, prctl=lambda *_: 0, capset=real.capset)",
        {"no-new-privileges"},
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_wall_that_the_machine_only_says_to_raise_does_not_count(ask, lie):
    pretence, fallen = LIES[lie]
    if "no-new-privileges" in fallen and ctypes.CDLL(None).prctl(39, 0, 0, 0, 0) == 1:
        pytest.skip("no process gains rights here, whatever it asks for")
    everything = set(ask("walls", *fallen, room=OWN_ROOM))
    assert everything - set(ask("walls", room=OWN_ROOM, pretence=pretence)) >= fallen


def test_the_share_of_who_stands_back_cannot_be_raised(ask):
    share = "open('/proc/self/autogroup', 'w').write('0')"
    assert ask("os.setsid() > 0", "seccomp", stands_back=True) == "PermissionError"
    assert ask(share, "mount", stands_back=True) in ("OSError", "FileNotFoundError", "PermissionError")


def test_children_are_found_where_the_machine_does_not_list_them(monkeypatch):
    parent = subprocess.Popen(
        [sys.executable, "-c", "import subprocess; subprocess.run(['sleep', '60'])"], start_new_session=True
    )
    try:
        deadline = time.monotonic() + 20
        while len(listed := sandbox.descendants(parent.pid)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        monkeypatch.setattr(sandbox, "_children", sandbox._sought_children)
        assert sandbox.descendants(parent.pid) == listed
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()


REFUSED_CALLS = {
    "a user namespace by clone": "libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)",
    "clone3": "libc.syscall(435, 0, 0)",
    "unshare": "libc.unshare(0x10000000)",
    "fsopen": "libc.syscall(430, b'tmpfs', 0)",
    "mount_setattr": "libc.syscall(442, -1, b'', 0, 0, 0)",
    "io_uring": "libc.syscall(425, 1, 0)",
    "memory that no folder shows": "libc.syscall(447, 0)",
    "shared memory of System V": "libc.shmget(0, 4096, 0o1600)",
    "a timer that signals": "libc.syscall(222, 0, 0, ctypes.byref(ctypes.c_int()))",
    "a child whose end continues its parent": "libc.syscall(56, 18, 0, 0, 0, 0)",
    "a descriptor that continues": "libc.fcntl(0, 10, 18)",
    "a parent's death that continues": "libc.prctl(1, 18, 0, 0, 0)",
    "a message queue": "libc.syscall(240, b'q', 0o102, 0o600, 0)",
    "events of the processor": "libc.syscall(298, 0, 0, -1, -1, 0)",
    "keys": "libc.syscall(250, 0, -3, 1)",
    "the machine's log": "libc.syscall(103, 3, 0, 0)",
    "pages moved from one process to another": "libc.syscall(278, 1, 0, 0, 0)",
    "typing into a terminal": "libc.ioctl(0, 0x5412, b'x')",
    "pasting into a terminal": "libc.ioctl(0, 0x541C, b'x')",
    "settings of the network": "libc.ioctl(0, 0x8914, 0)",
    "a call that no kernel has yet": "libc.syscall(5000)",
}


@pytest.mark.parametrize("what", REFUSED_CALLS)
def test_a_call_that_no_kernel_needs_is_refused(ask, what):
    call = REFUSED_CALLS[what].replace("libc", "ctypes.CDLL(None, use_errno=True)")
    assert ask(call, "seccomp") == -1


def test_what_libraries_use_is_not_refused(ask):
    assert ask("subprocess.run(['true']).returncode", "seccomp") == 0
    assert ask("os.memfd_create('x') > 0", "seccomp")
    assert ask("__import__('threading').Thread(target=int).start()", "seccomp") is None
    assert ask("ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)", "seccomp") == 0
    assert ask("__import__('fcntl').ioctl(os.pipe()[0], 0x541B, bytes(4)) == bytes(4)", "seccomp")


def test_calls_that_are_not_allowed_say_so_as_libraries_expect_it(ask):
    errors = "[(lambda libc: (libc.syscall(n, 0, 0, 0, 0, 0, 0), ctypes.get_errno())[1])(ctypes.CDLL(None, use_errno=True)) for n in (435, 425, 9999, 310, 0x40000001)]"
    assert ask(errors, "seccomp") == [38, 38, 38, 1, 1]
    requests = "[(lambda libc: (libc.ioctl(0, n, 0), ctypes.get_errno())[1])(ctypes.CDLL(None, use_errno=True)) for n in (0x8914, 0x5412)]"
    assert ask(requests, "seccomp") == [25, 25]


def test_it_is_the_first_to_die_where_memory_runs_out(ask):
    assert ask("int(open('/proc/self/oom_score_adj').read())", "mount") == 1000


HOLDS = """
import os, sys, time
kind = sys.argv[1]
if kind == "memfd":
    fd = os.memfd_create("held"); os.posix_fallocate(fd, 0, 64 << 20)
else:
    held = bytearray(b"x") * (64 << 20)
print("ready", flush=True); time.sleep(60)
"""


@pytest.mark.parametrize("kind", ["bytes", "memfd"])
def test_memory_of_every_kind_is_counted(kind):
    holder = subprocess.Popen([sys.executable, "-c", HOLDS, kind], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"ready\n"
        assert sandbox.held_bytes([holder.pid]) > 64 << 20
    finally:
        holder.kill()
        holder.wait()


def test_its_temporary_folders_are_one_and_can_be_weighed(ask):
    written = "Path('/dev/shm/held').write_bytes(b'x' * (1 << 20))"
    free = "os.statvfs('/tmp').f_bfree"
    assert ask(f"(lambda before: ({written}, before - {free})[1])({free})", "root") >= (1 << 20) / 4096


def test_every_call_of_the_honest_corpus_is_allowed_but_one_that_libraries_do_without():
    """As `benchmarks/system_calls.py` recorded it, with compilers and torch's own compiler."""
    recorded = json.loads((ROOT / "benchmarks/results/system-calls-cpu.json").read_text())
    assert set(recorded["verdicts"]) == {"correct"}
    assert len(recorded["calls"]) > 80
    assert {name for name in recorded["calls"] if name not in syscalls.NUMBERS} - TRIED == {"clone3"}
    assert "clone3 ENOSYS" in recorded["not_allowed"]
    assert not [name for name in recorded["not_allowed"] if "went through" in name]
