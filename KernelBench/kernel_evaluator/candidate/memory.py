"""Memory shared between the oracle and the processes that run models, passed as file descriptors.

On a GPU these are CUDA virtual-memory handles, which cross uids where legacy CUDA IPC does not; on the
CPU sealed memory files. Where a platform refuses the handles, a memory file with a copy on the device
takes their place. Whoever maps a buffer can write it: the oracle keeps nothing there that a candidate
must not change.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from functools import cache

import torch

ALIGNMENT = 512
"""Bytes; every tensor in a buffer starts at a multiple, as torch's own allocator does."""

_F_ADD_SEALS, _SEALS = 1033, 0x0001 | 0x0002 | 0x0004  # seal, shrink, grow
_PINNED, _POSIX_FD, _DEVICE, _READ_WRITE = 1, 1, 1, 3


class HandlesRefused(Exception):
    """The platform does not share CUDA memory as file descriptors."""


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _AllocationProperties(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class SharedBuffer:
    """`tensor` is the whole buffer as bytes; `publish` and `refresh` do something for fallbacks only."""

    def __init__(self, tensor: torch.Tensor, fd: int, host: torch.Tensor | None = None) -> None:
        self.tensor = tensor
        self.fd = fd
        self._host = host

    @property
    def is_fallback(self) -> bool:
        """Whether the buffer travels through host memory."""
        return self._host is not None

    def view(self, offset: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        """Give a tensor that lies in the buffer from byte `offset` on."""
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        return self.tensor[offset : offset + size].view(dtype).view(shape)

    def lying(
        self, offset: int, dtype: torch.dtype, shape: tuple[int, ...], *, swapped: bool
    ) -> torch.Tensor:
        """The same, or one whose last two axes have changed places in memory, where it has two."""
        if not swapped or len(shape) < 2:
            return self.view(offset, dtype, shape)
        return self.view(offset, dtype, (*shape[:-2], shape[-1], shape[-2])).transpose(-1, -2)

    def publish(self) -> None:
        """Make what was written visible to the other side."""
        if self._host is not None:
            self._host.copy_(self.tensor)

    def refresh(self) -> None:
        """Fetch what the other side published."""
        if self._host is not None:
            self.tensor.copy_(self._host)

    def close(self) -> None:
        """Unmap the buffer; tensors that view it must not be used afterwards."""


class _CudaBuffer(SharedBuffer):
    def __init__(self, pointer: int, nbytes: int, handle: int, fd: int) -> None:
        self._pointer, self._nbytes, self._handle = pointer, nbytes, handle
        interface = {"shape": (nbytes,), "typestr": "|u1", "data": (pointer, False), "version": 3}
        holder = type("Holder", (), {"__cuda_array_interface__": interface})()
        super().__init__(torch.as_tensor(holder, device="cuda"), fd)

    def close(self) -> None:
        if self._pointer:
            torch.cuda.synchronize()
            driver = _driver()
            pointer, size = ctypes.c_uint64(self._pointer), ctypes.c_size_t(self._nbytes)
            driver.cuMemUnmap(pointer, size)
            driver.cuMemAddressFree(pointer, size)
            driver.cuMemRelease(ctypes.c_uint64(self._handle))
            self._pointer = 0
            _close_fd(self)


class _HostBuffer(SharedBuffer):
    def __init__(self, fd: int, nbytes: int, device: str) -> None:
        self._map = mmap.mmap(fd, nbytes)
        host = torch.frombuffer(self._map, dtype=torch.uint8)
        if device == "cpu":
            super().__init__(host, fd)
        else:
            super().__init__(torch.empty(nbytes, dtype=torch.uint8, device=device), fd, host)

    def close(self) -> None:
        self.tensor = torch.empty(0, dtype=torch.uint8)
        self._host = None
        _close_fd(self)


def create(nbytes: int, device: str, *, fallback: bool = False) -> SharedBuffer:
    """Allocate a buffer that can be passed on; raise HandlesRefused where CUDA handles cannot be exported."""
    if device == "cuda" and not fallback:
        return _create_cuda(nbytes)
    fd = os.memfd_create("kernel_evaluator", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, max(nbytes, 1))
    # Without the seals a candidate could shrink the file under the oracle and kill it by SIGBUS.
    fcntl.fcntl(fd, _F_ADD_SEALS, _SEALS)
    return _HostBuffer(fd, max(nbytes, 1), device)


def attach(fd: int, nbytes: int, device: str, *, fallback: bool = False) -> SharedBuffer:
    """Map a buffer that another process created."""
    if device == "cuda" and not fallback:
        handle = ctypes.c_uint64()
        _check(_driver().cuMemImportFromShareableHandle(ctypes.byref(handle), ctypes.c_void_p(fd), _POSIX_FD))
        return _map_cuda(handle.value, _granular(nbytes), fd)
    return _HostBuffer(fd, max(nbytes, 1), device)


def layout(sizes: list[int]) -> tuple[list[int], int]:
    """Place byte sizes one after the other: their aligned offsets, and the bytes needed in all."""
    offsets, at = [], 0
    for size in sizes:
        offsets.append(at)
        at += -(-size // ALIGNMENT) * ALIGNMENT
    return offsets, at


@cache
def _driver() -> ctypes.CDLL:
    torch.zeros(1, device="cuda")  # the primary context must be current before the driver is spoken to
    return ctypes.CDLL("libcuda.so.1")


def _check(code: int) -> None:
    if code != 0:
        raise HandlesRefused(f"the CUDA driver answered {code}")


def _properties() -> _AllocationProperties:
    location = _Location(_DEVICE, torch.cuda.current_device())
    return _AllocationProperties(type=_PINNED, handle_types=_POSIX_FD, location=location)


@cache
def _granularity() -> int:
    found = ctypes.c_size_t()
    _check(_driver().cuMemGetAllocationGranularity(ctypes.byref(found), ctypes.byref(_properties()), 1))
    return found.value


def _granular(nbytes: int) -> int:
    step = _granularity()
    return -(-max(nbytes, 1) // step) * step


def _create_cuda(nbytes: int) -> SharedBuffer:
    driver, size = _driver(), _granular(nbytes)
    handle, fd = ctypes.c_uint64(), ctypes.c_int()
    code = driver.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(_properties()), 0)
    if code == 2:
        raise torch.cuda.OutOfMemoryError(f"no {size / 2**30:.1f} GiB left for a shared buffer")
    _check(code)
    _check(driver.cuMemExportToShareableHandle(ctypes.byref(fd), handle, _POSIX_FD, 0))
    return _map_cuda(handle.value, size, fd.value)


def _map_cuda(handle: int, size: int, fd: int) -> SharedBuffer:
    driver, pointer, whole = _driver(), ctypes.c_uint64(), ctypes.c_size_t(size)
    _check(
        driver.cuMemAddressReserve(ctypes.byref(pointer), whole, ctypes.c_size_t(0), ctypes.c_uint64(0), 0)
    )
    _check(driver.cuMemMap(pointer, whole, ctypes.c_size_t(0), ctypes.c_uint64(handle), 0))
    access = _Access(_Location(_DEVICE, torch.cuda.current_device()), _READ_WRITE)
    _check(driver.cuMemSetAccess(pointer, whole, ctypes.byref(access), ctypes.c_size_t(1)))
    return _CudaBuffer(pointer.value, size, handle, fd)


def _close_fd(buffer: SharedBuffer) -> None:
    if buffer.fd >= 0:
        os.close(buffer.fd)
        buffer.fd = -1
