"""Directives on blocks: their place in the loop nest, and the buffers between them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue, TypeAttribute
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer

from mlc.dialects.access import IndexParser, print_exprs
from mlc.dialects.index import Index, IndexMapAttr
from mlc.dialects.sched.handles import BLOCK, I64, LOOP
from mlc.dialects.text import TextOp


@irdl_op_definition
class ComputeAtOp(IRDLOperation):
    """
    Compute a producer inside a loop of its consumers: `sched.compute_at %p at %l`.

    - block: the producer; its old loops are consumed, the new ones (one per axis) are `sched.loops %p under %l : n`
    - loop: all consumers of the block's buffer stand below it

    Each iteration of the loop computes the box of elements that the consumers below it read in that iteration.

        loop.for %i = 0 to 9 { "p"(%i) }  loop.for %o = 0 to 4 { loop.for %k = 0 to 3 { reads p[%o * 2 + %k] } }
        -> loop.for %o = 0 to 4 { loop.for %i = 0 to 3 { "p"(%o * 2 + %i) }  loop.for %k = 0 to 3 { ... } }

    TVM: compute_at. Halide: compute_at.
    """

    name = "sched.compute_at"

    block = operand_def(BLOCK)
    loop = operand_def(LOOP)
    assembly_format = "$block `at` $loop attr-dict"


@irdl_op_definition
class ReverseComputeAtOp(IRDLOperation):
    """
    Compute a consumer inside a loop of its producer: `sched.reverse_compute_at %c at %l`.

    - block: the consumer; its old loops are consumed, the new ones are `sched.loops %c under %l : n`
    - loop: stands outside the reduction of the producer

    Each iteration of the loop computes the elements that the box written in that iteration allows.

        loop.for %o = 0 to 4 { loop.for %i = 0 to 16 { "p"(%o * 16 + %i) } }  loop.for %j = 0 to 64 { "c"(%j) }
        -> loop.for %o = 0 to 4 { loop.for %i = 0 to 16 { "p"(...) }  loop.for %j = 0 to 16 { "c"(%o * 16 + %j) } }

    TVM: reverse_compute_at. Halide: compute_with, fuse_with.
    """

    name = "sched.reverse_compute_at"

    block = operand_def(BLOCK)
    loop = operand_def(LOOP)
    assembly_format = "$block `at` $loop attr-dict"


@irdl_op_definition
class ComputeInlineOp(IRDLOperation):
    """
    Compute a producer's element wherever it is read: `sched.compute_inline %p`.

    - block: consumed; has no reduction and writes one buffer, which is dropped

        "p" { p[%i] = exp(x[%i]) }  "c" { y[%i] = p[%i] + 1 }
        -> "c" { y[%i] = exp(x[%i]) + 1 }

    TVM: compute_inline. Halide: compute_inline.
    """

    name = "sched.compute_inline"

    block = operand_def(BLOCK)
    assembly_format = "$block attr-dict"


@irdl_op_definition
class CacheReadOp(IRDLOperation):
    """
    Let a block read a buffer through a copy: `%r = sched.cache_read %c[0] "local"`.

    - block: the reader
    - buffer: the number of a buffer that it reads, in the order of its first loads, without its own result
    - scope: of the copy
    - element (`as f32`): the elements of the copy, to which the block casts each element that it loads; the copying
      block casts them instead

    The result is the copying block, "<buffer>_<scope>". With sched.transform_layout %r, this is packing.

        "c" { ... x[%i] ... }
        -> loop.for %a = 0 to 8 { "x_local" { x_local[%a] = x[%a] } }  "c" { ... x_local[%i] ... }

    TVM: cache_read. Halide: in().
    """

    name = "sched.cache_read"

    block = operand_def(BLOCK)
    buffer = prop_def(I64)
    scope = prop_def(StringAttr)
    element = opt_prop_def(TypeAttribute)
    result = result_def(BLOCK)
    assembly_format = "$block `[` $buffer `]` $scope (`as` $element^)? attr-dict"


@irdl_op_definition
class CacheWriteOp(IRDLOperation):
    """
    Let a block write a buffer through a copy: `%w = sched.cache_write %c "local"`.

    - block: the writer
    - scope: of the copy

    The result is the block that copies back, "<buffer>_<scope>".

        "c" { y[%i] = ... }
        -> "c" { y_local[%i] = ... }  loop.for %a = 0 to 8 { "y_local" { y[%a] = y_local[%a] } }

    TVM: cache_write. Halide: in().
    """

    name = "sched.cache_write"

    block = operand_def(BLOCK)
    scope = prop_def(StringAttr)
    result = result_def(BLOCK)
    assembly_format = "$block $scope attr-dict"


@irdl_op_definition
class RfactorOp(IRDLOperation):
    """
    Reduce in two steps: `%rf = sched.rfactor %l axis 0`.

    - loop: a reduction loop of its block; in the first step its iterations have separate partial results
    - axis: the position of the new dimension in the buffer of partial results

    The result is the block of the first step, "<name>_rf"; the block of the second keeps its handle and name.

        loop.for %o = 0 to 4 { loop.for %i = 0 to 16 { "s"(reduce %o * 16 + %i) { s += x } } }
        -> loop.for %o = 0 to 4 { loop.for %i = 0 to 16 { "s_rf"(%i, reduce %o) { rf[%i] += x } } }
           loop.for %r = 0 to 16 { "s"(reduce %r) { s += rf[%r] } }

    TVM: rfactor. Halide: rfactor.
    """

    name = "sched.rfactor"

    loop = operand_def(LOOP)
    axis = prop_def(I64)
    result = result_def(BLOCK)
    assembly_format = "$loop `axis` $axis attr-dict"


@irdl_op_definition
class SetScopeOp(IRDLOperation):
    """
    Set the memory scope of the buffer that a block writes: `sched.set_scope %p "local"`.

    - block: the writer
    - scope: "local" (private to a thread), "shared" or "global"

        %b = loop.alloc "shared" : memref<8xf32>
        -> %b = loop.alloc "local" : memref<8xf32>

    TVM: set_scope. Halide: store_in.
    """

    name = "sched.set_scope"

    block = operand_def(BLOCK)
    scope = prop_def(StringAttr)
    assembly_format = "$block $scope attr-dict"


@irdl_op_definition
class StorageAlignOp(IRDLOperation):
    """
    Pad the buffer that a block writes: `sched.storage_align %p axis 0 factor 32 offset 8`.

    - block: the writer
    - axis, factor, offset: the stride of the axis becomes `offset` modulo `factor`

        %b = loop.alloc "shared" : memref<4x16xf32>
        -> %b = loop.alloc "shared" {storage_align = array<i64: 0, 32, 8>} : memref<4x40xf32>

    TVM: storage_align. Halide: align_storage.
    """

    name = "sched.storage_align"

    block = operand_def(BLOCK)
    axis = prop_def(I64)
    factor = prop_def(I64)
    offset = prop_def(I64)
    assembly_format = "$block `axis` $axis `factor` $factor `offset` $offset attr-dict"


@irdl_op_definition
class DecomposeReductionOp(IRDLOperation):
    """
    Split a reduction's initialization from its update: `%init, %update = sched.decompose_reduction %c at %l`.

    - block: consumed; becomes the update
    - loop: the init nest goes in front of it; the reduction's loops are at or inside it

    The init block is named "<name>_init"; its loops are copies of the spatial loops inside `loop`.

        loop.for %k = 0 to 4 { loop.for %i = 0 to 8 { "c" init { c = 0 } { c += x } } }
        -> loop.for %z = 0 to 8 { "c_init" { c = 0 } }
           loop.for %k = 0 to 4 { loop.for %i = 0 to 8 { "c" { c += x } } }

    TVM: decompose_reduction. Halide: the pure definition of a Func with updates.
    """

    name = "sched.decompose_reduction"

    block = operand_def(BLOCK)
    loop = operand_def(LOOP)
    init = result_def(BLOCK)
    update = result_def(BLOCK)
    assembly_format = "$block `at` $loop attr-dict"


@irdl_op_definition
class TransformLayoutOp(TextOp):
    """
    Change the layout of the buffer that a block writes: `sched.transform_layout %p [d0 floordiv 16, d1, d0 mod 16]`.

    - block: the writer of a local buffer
    - map: the new index as expressions of the dimensions d0, d1, ... of the old one; must be injective

        p : memref<32x8xf32>,  p[%i, %j]
        -> p : memref<2x8x16xf32>,  p[%i floordiv 16, %j, %i mod 16]

    TVM: transform_layout. Halide: reorder_storage.
    """

    name = "sched.transform_layout"

    block = operand_def(BLOCK)
    map = prop_def(IndexMapAttr)

    @staticmethod
    def make(block: SSAValue, exprs: Sequence[Index]) -> TransformLayoutOp:
        """A transform to these expressions over the dimensions `mlc.dialects.index.tile(k)`."""
        return TransformLayoutOp.create(operands=[block], properties={"map": IndexMapAttr.get(exprs)})

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.block)
        printer.print_string(" [")
        print_exprs(printer, self.map.data, ())
        printer.print_string("]")

    @classmethod
    def read(cls, parser: Parser) -> TransformLayoutOp:
        block = parser.resolve_operand(parser.parse_unresolved_operand(), BLOCK)
        index, at = IndexParser(parser), parser.pos
        exprs = index.list()
        if index.unresolved:
            parser.raise_error("expected a map of the dimensions d0, d1, ... only", at, parser.pos)
        return cls.make(block, exprs)
