"""
Machine code loaded into this process, and the runtime struct of its kernels.

Where there is a C compiler the objects are linked into a shared library that holds the thread pool too; all such
libraries share one pool. Elsewhere LLVM links the objects in memory, and the pool is the one that it loaded.
"""

import ctypes
import os
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from mlc.runtime.artifact import Artifact

from mlc.support.errors import UserError
from mlc.support.scratch import scratch_directory

POOL = "mlc_pool"
"""The name of the object with the thread pool."""
FUNCTIONS = "mlc_functions"
"""The name of the object with the calls of registered functions."""
PROBES = "mlc_probes"
"""The name of the object with the probes: it measures the machine and traces tasks."""


class Code(Protocol):
    """Machine code that is loaded into this process."""

    def address(self, symbol: str) -> int:
        """The address of a function."""
        ...

    def runtime(self, threads: int, scratch: int) -> tuple[int, object]:
        """The address of an rt struct with `scratch` bytes for each thread, and the object that keeps it alive."""
        ...


class Toolchain(Protocol):
    """The parts of the compiler that an executable may need; whoever loads an artefact with mlc at hand gives them."""

    def load(self, objects: Mapping[str, bytes], libraries: Sequence[str] = ()) -> Code:
        """Link object files in memory, with libraries."""
        ...

    def resolver(self, path: Path, options: Mapping[str, Any], functions: list[Any], pool: Any, threads: int) -> Any:
        """The compiler of a saved vm model, from the model's file (runtime/vm/machine.py: Resolver)."""
        ...

    def export(self, artifact: "Artifact", path: Path) -> list[Path]:
        """Write a C library; the paths of the files."""
        ...


class SharedCode:
    """code.so in this process; the runtime that is part of it shares one thread pool with all others."""

    def __init__(self, path: Path) -> None:
        """Load it; UserError if a library or function that it calls is missing."""
        # The dynamic linker takes a path that it has seen for the library that stood there then; this one is new.
        with scratch_directory() as directory:
            link = directory / path.name
            link.symlink_to(path.resolve())
            try:
                self._library = ctypes.CDLL(str(link), mode=os.RTLD_NOW | os.RTLD_LOCAL)
            except OSError as error:  # a function or library of somebody else's that is not here
                text = str(error).replace(str(link), path.name)
                raise UserError(f"expected the compiled code to load, but got: {text}") from error

    def address(self, symbol: str) -> int:
        """The address of a function."""
        return ctypes.cast(getattr(self._library, symbol), ctypes.c_void_p).value or 0

    def runtime(self, threads: int, scratch: int) -> tuple[int, Any]:
        """The address of an rt struct with scratch memory, and what keeps it alive; MemoryError if there is none."""
        create, reserve = self._library.mlc_runtime_create, self._library.mlc_runtime_reserve
        create.restype, create.argtypes = ctypes.c_void_p, [ctypes.c_int32]
        reserve.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        destroy = self._library.mlc_runtime_destroy
        destroy.restype, destroy.argtypes = None, [ctypes.c_void_p]
        rt = create(threads)
        if not rt or reserve(rt, scratch):
            raise MemoryError(f"expected {scratch} bytes of scratch for {threads} threads, but got none")
        keeper = Finalizer()
        weakref.finalize(keeper, destroy, rt).atexit = False
        return rt, keeper


class Finalizer:
    """Stands for a native runtime, which is freed when this object is collected."""
