"""A pass that puts two buffers of a kernel into one piece of memory is blamed; the interpreter keeps them apart."""

import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from mlc.dialects import loop
from mlc.dialects.attributes import LOOP_OFFSET
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.validation.validate_each import ResultChanged, ValidateInstrument

TEXT = """loop.func @k(%x: memref<8xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
  %a = loop.alloc "local" : memref<8xf32>
  %b = loop.alloc "local" : memref<8xf32>
  loop.for %i = 0 to 8 {
    %0 = loop.load %x[%i] : f32
    loop.store %0, %a[%i] : f32
    %1 = arith.addf %0, %0 : f32
    loop.store %1, %b[%i] : f32
  }
  loop.for %i = 0 to 8 {
    %0 = loop.load %a[%i] : f32
    %1 = loop.load %b[%i] : f32
    %2 = arith.mulf %0, %1 : f32
    loop.store %2, %y[%i] : f32
  }
}"""


class Placed(ModulePass):
    """A plan of memory: the second buffer so many bytes behind the first."""

    name = "loop-place"

    def __init__(self, distance: int) -> None:
        self.distance = distance

    def apply(self, ctx, op: ModuleOp) -> None:
        allocs = [alloc for alloc in op.walk() if isinstance(alloc, loop.AllocOp)]
        for number, alloc in enumerate(allocs):
            alloc.attributes[LOOP_OFFSET] = IntegerAttr(number * self.distance, i64)


def validated(distance: int) -> int:
    """The number of comparisons."""
    instrument = ValidateInstrument()
    run_passes(parse_module(TEXT), make_context(), [Placed(distance)], instruments=[instrument])
    return instrument.compared


def test_buffers_that_are_in_use_do_not_share_memory() -> None:
    assert validated(64) == 1
    with pytest.raises(ResultChanged, match=r"'loop-place' changed @k .*is overwritten by .* while it is in use"):
        validated(0)
    with pytest.raises(ResultChanged, match="expected an offset that is a multiple of 64, but got 16"):
        validated(16)
