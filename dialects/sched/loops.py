"""Directives on loops: splitting, order, kind."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, StringAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.discardable import attribute_problem
from mlc.dialects.sched.handles import I64, INT, LOOP
from mlc.dialects.text import TextOp

REST, KNOB = 0, -1


def factors_attr(factors: Sequence[int | SSAValue | None]) -> tuple[DenseArrayBase[IntegerType], list[SSAValue]]:
    """The attribute and the operands for factors, each an integer, a knob's handle, or None for `?`."""
    for f in factors:
        if not (f is None or isinstance(f, SSAValue) or (isinstance(f, int) and f > 0)):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
            raise VerifyException(f"expected a positive factor, None or a knob, but got {f!r}")
    numbers = [REST if f is None else f if isinstance(f, int) else KNOB for f in factors]
    return DenseArrayBase.from_list(i64, numbers), [f for f in factors if isinstance(f, SSAValue)]


def print_factors(printer: Printer, factors: DenseArrayBase[IntegerType], knobs: Sequence[SSAValue]) -> None:
    """`[?, 16, %t]`."""
    handles = iter(knobs)
    with printer.in_square_brackets():
        for i, n in enumerate(factors.get_values()):
            printer.print_string(", " if i else "")
            if n == KNOB:
                printer.print_operand(next(handles))
            else:
                printer.print_string("?" if n == REST else str(n))


def parse_factors(parser: Parser) -> list[int | SSAValue | None]:
    """`[?, 16, %t]`."""

    def factor() -> int | SSAValue | None:
        if parser.parse_optional_punctuation("?"):
            return None
        if (u := parser.parse_optional_unresolved_operand()) is not None:
            return parser.resolve_operand(u, INT)
        at = parser.pos
        n = parser.parse_integer(allow_boolean=False)
        if n <= 0:
            parser.raise_error(f"expected a positive factor, `?` or a knob, but got {n}", at, parser.pos)
        return n

    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, factor)


def _loop_operand(parser: Parser) -> SSAValue:
    return parser.resolve_operand(parser.parse_unresolved_operand(), LOOP)


@irdl_op_definition
class SplitOp(TextOp):
    """
    Split a loop into a nest: `%o, %i = sched.split %l [?, 16]`.

    - loop: consumed; the results are the new loops, outer to inner
    - factors: the new extents; at most one is `?` (inferred), each may be a knob

    Where the factors do not divide the extent, the blocks below get a `where` predicate.

        loop.for %j = 0 to 60 { ... %j ... }
        -> loop.for %o = 0 to 4 { loop.for %i = 0 to 16 { ... %o * 16 + %i ... where (59 - %o * 16 - %i) } }

    TVM: split. Halide: split.
    """

    name = "sched.split"

    loop = operand_def(LOOP)
    knobs = var_operand_def(INT)
    factors = prop_def(DenseArrayBase.constr(i64))
    loops = var_result_def(LOOP)

    @staticmethod
    def make(loop: SSAValue, factors: Sequence[int | SSAValue | None]) -> SplitOp:
        """A split by these factors; None stands for `?`."""
        attr, knobs = factors_attr(factors)
        return SplitOp.create(operands=[loop, *knobs], properties={"factors": attr}, result_types=[LOOP] * len(factors))

    def verify_(self) -> None:
        numbers = self.factors.get_values()
        if numbers.count(REST) > 1:
            raise VerifyException("expected at most one `?` among the factors")
        if numbers.count(KNOB) != len(self.knobs) or len(numbers) != len(self.loops) or min(numbers, default=1) < KNOB:
            raise VerifyException(f"expected one result per factor, {len(numbers)}, and one operand per knob")

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.loop)
        printer.print_string(" ")
        print_factors(printer, self.factors, self.knobs)

    @classmethod
    def read(cls, parser: Parser) -> SplitOp:
        loop = _loop_operand(parser)
        return cls.make(loop, parse_factors(parser))


@irdl_op_definition
class TileOp(TextOp):
    """
    Split several loops and move the inner parts innermost: `%io, %jo, %ii, %ji = sched.tile %i, %j [4, 16]`.

    - loops: consumed; each is nested in the one before it
    - factors: the inner extents, one per loop

        loop.for %i = 0 to 8 { loop.for %j = 0 to 64 { ... } }
        -> loop.for %io = 0 to 2 { loop.for %jo = 0 to 4 { loop.for %ii = 0 to 4 { loop.for %ji = 0 to 16 { ... } } } }

    TVM: tile. Halide: tile.
    """

    name = "sched.tile"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    loops = var_operand_def(LOOP)
    knobs = var_operand_def(INT)
    factors = prop_def(DenseArrayBase.constr(i64))
    tiles = var_result_def(LOOP)

    @staticmethod
    def make(loops: Sequence[SSAValue], factors: Sequence[int | SSAValue]) -> TileOp:
        """A tile of these loops by these inner extents."""
        attr, knobs = factors_attr(factors)
        return TileOp(operands=[loops, knobs], properties={"factors": attr}, result_types=[[LOOP] * (2 * len(loops))])

    def verify_(self) -> None:
        numbers = self.factors.get_values()
        if REST in numbers:
            raise VerifyException("expected the inner extents as factors, but got `?`")
        if len(numbers) != len(self.loops) or len(self.tiles) != 2 * len(self.loops):
            raise VerifyException(f"expected one factor per loop, {len(self.loops)}, but got {len(numbers)}")

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.loops, printer.print_operand)
        printer.print_string(" ")
        print_factors(printer, self.factors, self.knobs)

    @classmethod
    def read(cls, parser: Parser) -> TileOp:
        loops = parser.parse_comma_separated_list(parser.Delimiter.NONE, lambda: _loop_operand(parser))
        at = parser.pos
        factors = [f for f in parse_factors(parser) if f is not None]
        if len(factors) != len(loops):
            parser.raise_error(f"expected one inner extent per loop, {len(loops)}", at, parser.pos)
        return cls.make(loops, factors)


@irdl_op_definition
class FuseOp(IRDLOperation):
    """
    Fuse perfectly nested loops to one: `%f = sched.fuse %i, %j`.

    - loops: consumed, outer to inner; the result is the loop over all their iterations

        loop.for %i = 0 to 4 { loop.for %j = 0 to 8 { ... } }
        -> loop.for %f = 0 to 32 { ... %f floordiv 8, %f mod 8 ... }

    TVM: fuse. Halide: fuse.
    """

    name = "sched.fuse"

    loops = var_operand_def(LOOP)
    result = result_def(LOOP)
    assembly_format = "$loops attr-dict"


@irdl_op_definition
class ReorderOp(IRDLOperation):
    """
    Permute loops of one nest: `sched.reorder %k, %j`.

    - loops: in their new order, outer to inner; other loops between them keep their positions

        loop.for %j = 0 to 8 { loop.for %k = 0 to 4 { ... } }
        -> loop.for %k = 0 to 4 { loop.for %j = 0 to 8 { ... } }

    TVM: reorder. Halide: reorder (which lists the innermost first).
    """

    name = "sched.reorder"

    loops = var_operand_def(LOOP)
    assembly_format = "$loops attr-dict"


@irdl_op_definition
class PeelOp(IRDLOperation):
    """
    Split the last iterations off into a loop of their own: `%main, %rest = sched.peel %l by 1`.

    - loop: consumed
    - by: the number of iterations; the blocks of the rest are named "<name>_rest"

    Predicates that always hold in one of the parts are removed from it.

        loop.for %i = 0 to 4 { ... %i ... }
        -> loop.for %m = 0 to 3 { ... %m ... }  loop.for %r = 0 to 1 { ... %r + 3 ... }

    TVM: loop_partition. Halide: TailStrategy and partition.
    """

    name = "sched.peel"

    loop = operand_def(LOOP)
    by = prop_def(I64)
    main = result_def(LOOP)
    rest = result_def(LOOP)
    assembly_format = "$loop `by` $by attr-dict"


@irdl_op_definition
class ParallelOp(IRDLOperation):
    """
    Run a loop's iterations on threads: `sched.parallel %l`.

    - loop: binds only spatial axes of every block below it

        loop.for %i = 0 to 4 { ... }
        -> loop.for %i = 0 to 4 parallel { ... }

    TVM: parallel. Halide: parallel.
    """

    name = "sched.parallel"

    loop = operand_def(LOOP)
    assembly_format = "$loop attr-dict"


@irdl_op_definition
class VectorizeOp(IRDLOperation):
    """
    Turn loops into axes of a register tile: `sched.vectorize %i, %j`.

    - loops: a perfect nest around one block, outer to inner; the last one is the lanes. Reduction loops are allowed.

        loop.for %i = 0 to 4 { loop.for %j = 0 to 16 { loop.block ... } }
        -> loop.for %i = 0 to 4 vectorized { loop.for %j = 0 to 16 vectorized { loop.block ... } }

    TVM: vectorize (one loop). Halide: vectorize.
    """

    name = "sched.vectorize"

    loops = var_operand_def(LOOP)
    assembly_format = "$loops attr-dict"


@irdl_op_definition
class UnrollOp(IRDLOperation):
    """
    Unroll a loop completely: `sched.unroll %l`.

    - loop: of static extent

        loop.for %i = 0 to 4 { ... }
        -> loop.for %i = 0 to 4 unrolled { ... }

    TVM: unroll. Halide: unroll.
    """

    name = "sched.unroll"

    loop = operand_def(LOOP)
    assembly_format = "$loop attr-dict"


@irdl_op_definition
class BindOp(IRDLOperation):
    """
    Bind a loop to a thread axis of a device: `sched.bind %l to "blockIdx.x"`.

    - loop: as for sched.parallel
    - axis: the name of the device's axis

        loop.for %i = 0 to 4 { ... }
        -> loop.for %i = 0 to 4 bind "blockIdx.x" { ... }

    TVM: bind. Halide: gpu_blocks, gpu_threads.
    """

    name = "sched.bind"

    loop = operand_def(LOOP)
    axis = prop_def(StringAttr)
    assembly_format = "$loop `to` $axis attr-dict"


@irdl_op_definition
class PragmaOp(IRDLOperation):
    """
    Annotate a loop for later passes: `sched.pragma %l "prefetch" = 1`.

    - loop: the loop that gets the attribute
    - key, value: the attribute: one that loop.for has (`dialects/attributes.py`), or one with a prefix, `my.note`

        loop.for %i = 0 to 4 { ... }
        -> loop.for %i = 0 to 4 { ... } attributes {prefetch = 1 : i64}

    TVM: annotate, pragma.
    """

    name = "sched.pragma"

    loop = operand_def(LOOP)
    key = prop_def(StringAttr)
    value = prop_def(AnyAttr())
    assembly_format = "$loop $key `=` $value attr-dict"

    def verify_(self) -> None:
        """Some pass can read the attribute, or its name has a prefix."""
        if (problem := attribute_problem("loop.for", self.key.data)) is not None:
            raise VerifyException(problem)


@irdl_op_definition
class TensorizeOp(IRDLOperation):
    """
    Replace a loop and all inside it by an intrinsic: `sched.tensorize %l "dot_accumulate"`.

    - loop: consumed, with the loops inside; must have the intrinsic's form
    - intrin: its name; `mlc.passes.loop.directives.tensorize.INTRINSICS` lists them

        loop.for %k = 0 to 16 { loop.block "dot" ... { c = fma a[..k..], b[..k..], c } }
        -> c += reduce sum (a[.. : 16] * b[.. : 16]), on vector<16xf32>

    TVM: tensorize.
    """

    name = "sched.tensorize"

    loop = operand_def(LOOP)
    intrin = prop_def(StringAttr)
    assembly_format = "$loop $intrin attr-dict"
