"""The filter of system calls around untrusted code (the kernel's own, seccomp). x86-64 alone.

What `calls` lists is allowed, some of it with certain arguments only. Other old calls are refused; newer ones
are not there, so that libraries take the way that older kernels leave them.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import signal
import struct
from collections.abc import Iterable

from kernel_evaluator.walls.calls import ALLOWED, DEVICE_FAMILIES, REFUSED_REQUESTS

NUMBERS = {name: number for calls in ALLOWED.values() for name, number in calls.items()}

_LAST_OLD = 334
"""Calls up to this one came before libraries had to ask whether a call is there."""

_NEW_NAMESPACES = 0x7E020000
_AF_UNIX, _F_SETSIG, _PR_SET_PDEATHSIG = 1, 10, 1
_FAMILY = 0xFF00
_ARGUMENTS = (16, 24)

_LOAD, _AND, _EQUAL, _GREATER, _AT_LEAST, _ANY, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x35, 0x45, 0x06
_ALLOW, _ANSWER = 0x7FFF0000, 0x00050000
_ARCH_X86_64, _X32 = 0xC000003E, 0x40000000 - 1
_PR_SET_SECCOMP = 22

_libc = ctypes.CDLL(None, use_errno=True)


def refuse(without: Iterable[str] = ()) -> bool:
    """Put the filter around the calling process and all that it starts; False where that is refused.

    `without` names calls that are allowed otherwise.
    """
    if platform.machine() != "x86_64":
        return False
    steps = _program({number for name, number in NUMBERS.items() if name not in without})
    code = ctypes.create_string_buffer(b"".join(steps))
    header = struct.pack("<HxxxxxxQ", len(steps), ctypes.addressof(code))
    return int(_libc.prctl(_PR_SET_SECCOMP, 2, ctypes.c_char_p(header), 0, 0)) == 0


def _program(allowed: set[int]) -> list[bytes]:
    steps = [_step(_LOAD, 4), _step(_EQUAL, _ARCH_X86_64, 1, 0), _answer(errno.EPERM), _step(_LOAD, 0)]
    steps += [_step(_GREATER, _X32, 0, 1), _answer(errno.EPERM)]
    steps += _arguments()
    for first, last in _ranges(allowed):
        steps += [_step(_AT_LEAST, first, 0, 2), _step(_GREATER, last, 1, 0), _step(_RETURN, _ALLOW)]
    return [*steps, _step(_GREATER, _LAST_OLD, 1, 0), _answer(errno.EPERM), _answer(errno.ENOSYS)]


def _arguments() -> list[bytes]:
    """What may be called with certain arguments only. Their lower halves are all that the kernel looks at."""
    cont = int(signal.SIGCONT)
    exit_signal = [_step(_AND, 0xFF), _step(_EQUAL, cont, 1)]
    steps = _of("clone", [_argument(0), _step(_ANY, _NEW_NAMESPACES, len(exit_signal) + 1), *exit_signal])
    steps += _of("fcntl", [_argument(1), _step(_EQUAL, _F_SETSIG, 1)])
    death_signal = [_argument(1), _step(_EQUAL, cont, 1)]
    steps += _of("prctl", [_argument(0), _step(_EQUAL, _PR_SET_PDEATHSIG, 0, 2), *death_signal])
    steps += _of("socket", [_argument(0), _step(_EQUAL, _AF_UNIX, 0, 1)])
    known = [family << 8 for family in DEVICE_FAMILIES]
    asked = [_step(_EQUAL, family, len(known) - 1 - at, 0) for at, family in enumerate(known[:-1])]
    asked = [_step(_AND, _FAMILY), *asked, _step(_EQUAL, known[-1], 0, 1)]
    refused = [
        _step(_EQUAL, request, len(asked) + len(REFUSED_REQUESTS) - at)
        for at, request in enumerate(REFUSED_REQUESTS)
    ]
    return steps + _of("ioctl", [_argument(1), *refused, *asked], errno.ENOTTY)


def _ranges(numbers: set[int]) -> list[tuple[int, int]]:
    """The numbers as first and last of each unbroken row."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def _of(name: str, test: list[bytes], error: int = errno.EPERM) -> list[bytes]:
    """Refuse a call where its last step jumps by one; else load the call's number again and go on."""
    return [
        _step(_EQUAL, NUMBERS[name], 0, len(test) + 3),
        *test,
        _step(0x05, 1),
        _answer(error),
        _step(_LOAD, 0),
    ]


def _argument(at: int) -> bytes:
    return _step(_LOAD, _ARGUMENTS[at])


def _answer(error: int) -> bytes:
    return _step(_RETURN, _ANSWER | error)


def _step(code: int, k: int, jump_true: int = 0, jump_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, jump_true, jump_false, k)
