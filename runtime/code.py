"""
Machine code in this process, and the runtime that its kernels are given.

Where there is a C compiler the objects are linked into a shared library that holds the thread pool too; all such
libraries share one pool. Elsewhere LLVM links the objects in memory, and the pool is the one that it loaded.
"""

import ctypes
import os
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlc.codegen.scratch import scratch_directory

POOL = "mlc_pool"
"""The name of the object with the thread pool."""


class SharedCode:
    """code.so in this process; the runtime that is part of it shares one thread pool with all others."""

    def __init__(self, path: Path) -> None:
        # The dynamic linker takes a path that it has seen for the library that stood there then; this one is new.
        with scratch_directory() as directory:
            link = directory / path.name
            link.symlink_to(path.resolve())
            self._library = ctypes.CDLL(str(link), mode=os.RTLD_NOW | os.RTLD_LOCAL)

    def address(self, symbol: str) -> int:
        """The address of a function."""
        return ctypes.cast(getattr(self._library, symbol), ctypes.c_void_p).value or 0

    def runtime(self, threads: int, scratch: int) -> tuple[int, Any]:
        """The address of an rt struct with scratch memory, and what keeps it."""
        create, reserve = self._library.mlc_runtime_create, self._library.mlc_runtime_reserve
        create.restype, create.argtypes = ctypes.c_void_p, [ctypes.c_int32]
        reserve.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        destroy = self._library.mlc_runtime_destroy
        destroy.restype, destroy.argtypes = None, [ctypes.c_void_p]
        rt = create(threads)
        if not rt or reserve(rt, scratch):
            raise MemoryError(f"expected {scratch} bytes of scratch for {threads} threads, but got none")
        keeper = _Keeper()
        weakref.finalize(keeper, destroy, rt).atexit = False
        return rt, keeper


class _Keeper:
    """Something to hold on to."""


class JitCode:
    """The objects linked into this process by LLVM, where there is no C compiler."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        from mlc.codegen.native import Library

        self._library = Library.load(data for name, data in objects.items() if name != POOL)

    def address(self, symbol: str) -> int:
        """The address of a function."""
        return self._library.address(symbol)

    def runtime(self, threads: int, scratch: int) -> tuple[int, Any]:
        """The address of an rt struct with scratch memory, and what keeps it."""
        from mlc.runtime.pool import Pool

        rt = Pool.get(threads).rt(scratch)
        return rt.address, rt


def load_code(objects: Mapping[str, bytes]) -> "SharedCode | JitCode":
    """Link objects, the pool's among them, into this process."""
    from mlc.runtime.artifact import has_compiler

    if not has_compiler():
        return JitCode(objects)
    from mlc.codegen.link import link_shared

    with scratch_directory() as directory:
        return SharedCode(link_shared(objects.values(), directory / "code.so"))
