"""Objects linked into this process by LLVM, where there is no C compiler, beside the JIT-compiled thread pool."""

from collections.abc import Mapping

from mlc.codegen.native import Library
from mlc.codegen.pool.loaded import Pool

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
