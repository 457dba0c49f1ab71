"""Objects linked into this process by LLVM, where there is no C compiler, beside the JIT-compiled thread pool."""

import ctypes
import ctypes.util
from collections.abc import Iterable, Mapping

from mlc.codegen.native import Library
from mlc.codegen.pool.loaded import Pool
from mlc.support.errors import UserError

_POOL = "mlc_pool"


class JitCode:
    """Objects linked into this process by LLVM; an object of the name `mlc_pool` is left out."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self._library = Library.load(data for name, data in objects.items() if name != _POOL)

    def address(self, symbol: str) -> int:
        """The address of a function."""
        return self._library.address(symbol)

    def runtime(self, threads: int, scratch: int) -> tuple[int, object]:
        """The address of an rt struct with so many bytes of scratch a thread, and the object that keeps it alive."""
        rt = Pool.get(threads).rt(scratch)
        return rt.address, rt


def load_libraries(libraries: Iterable[str]) -> None:
    """Load libraries into this process, where objects then find their symbols; UserError for one that is not there."""
    for name in libraries:
        path = name if "/" in name or ".so" in name else ctypes.util.find_library(name)
        try:
            ctypes.CDLL(path or f"lib{name}.so", mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise UserError(f"expected library '{name}', but got: {error}") from error
