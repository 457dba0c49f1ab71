"""loop-scalarize: vectorized and unrolled loops become serial ones, for code that a C compiler vectorizes itself."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from mlc.dialects import loop


class ScalarizePass(ModulePass):
    """
    Make vectorized and unrolled loops serial, so that `loop-form-tiles` forms scalars and no tiles.

    `loop.for vectorized %i = 0 to 8 { ... }` -> `loop.for %i = 0 to 8 { ... }`

    The order of the loops, the split of their ranges and the parallel loops stay as the schedule made them.
    """

    name = "loop-scalarize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if isinstance(inner, loop.ForOp) and inner.kind.data in ("vectorized", "unrolled"):
                inner.kind = StringAttr("serial")
