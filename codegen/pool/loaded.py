"""The thread pool from Python: the native one, loaded once a process and shared by everything in it."""

import ctypes
import weakref
from functools import cache

from mlc.codegen.native import Library, emit_object
from mlc.codegen.pool import module as pool_ir
from mlc.support.abi import MAX_THREADS, PARALLEL_FOR, RuntimeStruct
from mlc.support.threads import available_cpus
from mlc.targets.target import native_target


class Native:
    """The pool's functions, callable; the code stays as long as the process, since its threads run it."""

    def __init__(self) -> None:
        library = Library.load([emit_object(pool_ir.module(native_target()), native_target())])
        # Interpreter shutdown must not unload code that workers are in.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
        create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32)
        reserve = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)
        destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        self.library = library
        self.create = create(library.address("mlc_runtime_create"))
        self.reserve = reserve(library.address("mlc_runtime_reserve"))
        self.destroy = destroy(library.address("mlc_runtime_destroy"))
        self.parallel_for = PARALLEL_FOR(library.address("mlc_parallel_for"))


@cache
def native() -> Native:
    """Load the pool; the first call compiles it."""
    return Native()


class Runtime:
    """An rt struct: its address goes to kernels as their last argument. One call at a time may use it."""

    def __init__(self, threads: int, scratch_bytes: int) -> None:
        library = native()
        address = library.create(threads)
        if not address:
            raise MemoryError("expected memory for a runtime, but got none")
        self.address: int = address
        self.struct = RuntimeStruct.from_address(address)
        self._as_parameter_ = ctypes.c_void_p(address)
        self._finalizer = weakref.finalize(self, library.destroy, address)
        self._finalizer.atexit = False
        self.reserve(scratch_bytes)

    def reserve(self, scratch_bytes: int) -> None:
        """Give each thread at least this much scratch memory (the old contents are lost)."""
        if native().reserve(self.address, scratch_bytes):
            raise MemoryError(
                f"expected {scratch_bytes} bytes of scratch for {self.struct.threads} threads, but got none"
            )


class Pool:
    """The process's thread pool at a number of threads: `Pool.get(2).rt(scratch_bytes).address`."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    @staticmethod
    def get(threads: int | None = None) -> "Pool":
        """Return the pool; without a number, one thread for each CPU that the process may use."""
        count = available_cpus() if threads is None else threads
        if not 1 <= count <= MAX_THREADS:
            raise ValueError(f"expected threads to be 1 to {MAX_THREADS}, but got {count}")
        return Pool(count)

    def rt(self, scratch_bytes: int = 0) -> Runtime:
        """Make an rt struct with so much scratch memory for each thread."""
        return Runtime(self.threads, scratch_bytes)
