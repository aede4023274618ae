"""Which system calls untrusted code may make, as a filter of the kernel's own (seccomp). x86-64 alone.

Of the calls that there are, those that no kernel needs are refused. Of those that came after number 334 only
the ones named here are there at all: what comes with a new kernel is closed until somebody asks for it.
"""

from __future__ import annotations

import ctypes
import platform
import signal
import struct

REFUSED = {
    "reads or changes other processes": (101, 310, 311, 312, 438),
    "mounts, or changes the root": (161, 165, 166, 155, 272, 308, 303, 304),
    "changes the machine": (163, 164, 167, 168, 169, 170, 171, 172, 173, 174, 175, 176, 177, 178, 179, 180),
    "sets clocks": (159, 227, 305),
    "loads code into the kernel, or hears of it": (246, 298, 300, 313, 320, 321, 323),
    "keeps keys": (248, 249, 250),
    "shares memory or messages beyond its processes": (
        *(29, 30, 31, 64, 65, 66, 67, 68, 69, 70, 71, 220),
        *(240, 241, 242, 243),
    ),
    "has signals sent with no sender, which would end a pause": (222, 244, 245),
}
"""By number, with what they do. 303 and 304 open files by handles, past every mount."""

NEWER = (424, 434, 436, 437, 439, 441, 448, 449, 450, 451, 452, 453, 454, 455, 456)
"""pidfd_send_signal, pidfd_open, close_range, openat2, faccessat2, epoll_pwait2, process_mrelease, futexes,
memory policies, cachestat, fchmodat2, shadow stacks: what C libraries of these years use."""

_LAST_OLD = 334
_CLONE, _CLONE3, _FCNTL, _PRCTL, _SOCKET = 56, 435, 72, 157, 41
_NEW_NAMESPACES = 0x7E020000
_AF_UNIX, _F_SETSIG, _PR_SET_PDEATHSIG = 1, 10, 1
_ARGUMENTS = (16, 24)

_LOAD, _AND, _EQUAL, _GREATER, _ANY, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x45, 0x06
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38
_ARCH_X86_64, _X32 = 0xC000003E, 0x40000000 - 1
_PR_SET_SECCOMP = 22

_libc = ctypes.CDLL(None, use_errno=True)


def refuse() -> bool:
    """Put the filter around the calling process and all that it starts; False where that is refused."""
    if platform.machine() != "x86_64":
        return False
    steps = _program()
    code = ctypes.create_string_buffer(b"".join(steps))
    header = struct.pack("<HxxxxxxQ", len(steps), ctypes.addressof(code))
    return int(_libc.prctl(_PR_SET_SECCOMP, 2, ctypes.c_char_p(header), 0, 0)) == 0


def _program() -> list[bytes]:
    steps = [_step(_LOAD, 4), _step(_EQUAL, _ARCH_X86_64, 1, 0), _step(_RETURN, _EPERM), _step(_LOAD, 0)]
    steps += _when([_step(_GREATER, _X32, 0, 1)], _EPERM)
    for numbers in REFUSED.values():
        for number in numbers:
            steps += _when([_step(_EQUAL, number, 0, 1)], _EPERM)
    newer = [_step(_EQUAL, number, len(NEWER) - at, 0) for at, number in enumerate(NEWER)]
    steps += [_step(_GREATER, _LAST_OLD, 0, len(newer) + 1), *newer, _step(_RETURN, _ENOSYS)]
    cont = int(signal.SIGCONT)
    # Of an argument the lower half is enough: the kernel looks at no more of these.
    exit_signal = [_step(_AND, 0xFF), _step(_EQUAL, cont, 1)]
    steps += _of(_CLONE, [_argument(0), _step(_ANY, _NEW_NAMESPACES, 3), *exit_signal])
    steps += _of(_FCNTL, [_argument(1), _step(_EQUAL, _F_SETSIG, 1)])
    death_signal = [_argument(1), _step(_EQUAL, cont, 1)]
    steps += _of(_PRCTL, [_argument(0), _step(_EQUAL, _PR_SET_PDEATHSIG, 0, 2), *death_signal])
    steps += [
        _step(_EQUAL, _SOCKET, 0, 3),
        _argument(0),
        _step(_EQUAL, _AF_UNIX, 1, 0),
        _step(_RETURN, _EPERM),
    ]
    return [*steps, _step(_RETURN, _ALLOW)]


def _when(test: list[bytes], answer: int) -> list[bytes]:
    return [*test, _step(_RETURN, answer)]


def _of(number: int, test: list[bytes]) -> list[bytes]:
    """Refuse a call where its last step jumps by one; else load the call's number again and go on."""
    return [
        _step(_EQUAL, number, 0, len(test) + 3),
        *test,
        _step(0x05, 1),
        _step(_RETURN, _EPERM),
        _step(_LOAD, 0),
    ]


def _argument(at: int) -> bytes:
    return _step(_LOAD, _ARGUMENTS[at])


def _step(code: int, k: int, jump_true: int = 0, jump_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, jump_true, jump_false, k)
