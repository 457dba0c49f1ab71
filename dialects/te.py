"""
The te dialect: a kernel as stages of index expressions.

    kernel   ::= `te.func` @name `(` args `)` `->` types `{` stage* `te.return` ... `}`
    stage    ::= `te.compute` "name" axes (`reduce` axes combiner)? region `:` type,*
    axes     ::= `(` (%axis `:` extent),* `)`
               | `te.extern` "name" ...  (te_extern.py: a loop body, or a call of a function)
    element  ::= `te.read` %tensor `[` index,* `]` (`mask` `(` index,* `)` `else` %value)? `:` type
               | `te.index` expr   |   arith.* and math.* on scalars   |   `te.yield` %value,*

An index is a quasi-affine expression of the stage's axes and of index values computed from data (a gather). A mask
lists expressions that must all be >= 0; where one is not, the read gives the `else` value and touches no memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    FunctionType,
    IndexType,
    IntegerAttr,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, Dialect, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.access import (
    IndexParser,
    MaskedReadOp,
    parse_access,
    print_access,
    print_axes,
    print_exprs,
    verify_access,
)
from mlc.dialects.combiner import COMBINERS, PAIR_COMBINERS
from mlc.dialects.index import UNBOUNDED, Index, IndexMapAttr, axis_range, const, size_of
from mlc.dialects.probe import IsolatedKernel, VerifiedAround, is_probe
from mlc.dialects.te_extern import ExternOp
from mlc.dialects.text import TextOp, parse_kernel, print_kernel


@irdl_op_definition
class FuncOp(IRDLOperation):
    """
    One kernel: tensors in, stages, tensors out.

    `te.func @f(%x: tensor<4xf32>) -> tensor<4xf32> { ... te.return %y : tensor<4xf32> }`
    """

    name = "te.func"

    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    body = region_def("single_block")

    traits = traits_def(IsolatedKernel(), SymbolOpInterface())

    @staticmethod
    def make(name: str, inputs: Sequence[Attribute], outputs: Sequence[Attribute], body: Region) -> FuncOp:
        """A kernel with the given operand and result types."""
        return FuncOp(
            properties={
                "sym_name": StringAttr(name),
                "function_type": FunctionType.from_lists(inputs, outputs),
            },
            regions=[body],
        )

    @property
    def args(self) -> Sequence[SSAValue]:
        """The kernel's operands."""
        return self.body.block.args

    @property
    def return_op(self) -> ReturnOp:
        """The terminator, whose operands are the kernel's results."""
        op = self.body.block.last_op
        assert isinstance(op, ReturnOp)
        return op

    @property
    def stages(self) -> list[ComputeOp]:
        """The compute stages in order."""
        return [op for op in self.body.block.ops if isinstance(op, ComputeOp)]

    def verify_(self) -> None:
        last = self.body.block.last_op
        if not isinstance(last, ReturnOp):
            raise VerifyException("expected the body of te.func to end in te.return")
        if [v.type for v in last.values] != list(self.function_type.outputs.data):
            raise VerifyException(
                f"expected te.return of types {_types(self.function_type.outputs.data)}, "
                f"but got {_types(v.type for v in last.values)}"
            )
        if [a.type for a in self.args] != list(self.function_type.inputs.data):
            raise VerifyException("expected the body's arguments to have the operand types of the function")

    def print(self, printer: Printer) -> None:
        print_kernel(printer, self.sym_name, self.function_type, self.body, self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        kernel = parse_kernel(parser)
        op = FuncOp.make(kernel.name, kernel.inputs, kernel.outputs, kernel.body)
        op.attributes |= kernel.attributes
        return op


def _shape(tensor: SSAValue) -> Sequence[int]:
    assert isinstance(tensor.type, TensorType)
    return tensor.type.get_shape()


def _types(types: Iterable[Attribute]) -> str:
    return "(" + ", ".join(map(str, types)) + ")"


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """The kernel's results: `te.return %y : tensor<4xf32>`."""

    name = "te.return"
    values = var_operand_def(TensorType)
    traits = traits_def(IsTerminator())
    assembly_format = "($values^ `:` type($values))? attr-dict"


@irdl_op_definition
class ComputeOp(TextOp):
    """
    One stage: a tensor given element by element, or a reduction.

    `%y = te.compute "sum" (%i : 4) reduce (%k : 8) sum { ... te.yield %v : f32 } : tensor<4xf32>`
    Spatial axes index the result; reduction axes are combined by `sum`, `prod`, `max`, `min`, or, for two yielded
    values (value, index), by `argmax`, `argmin`.
    """

    name = "te.compute"

    stage = prop_def(StringAttr)
    extents = prop_def(IndexMapAttr)
    spatial = prop_def(IntegerAttr)
    combiner = opt_prop_def(StringAttr)
    symbols = var_operand_def(IndexType)
    results_ = var_result_def(TensorType)
    body = region_def("single_block")

    traits = traits_def(Pure())

    @staticmethod
    def make(
        stage: str,
        spatial: Sequence[int | Index],
        reduce: Sequence[int | Index],
        combiner: str | None,
        result_types: Sequence[Attribute],
        body: Region,
        symbols: Sequence[SSAValue] = (),
    ) -> ComputeOp:
        """A stage; the body's block has one index argument per spatial, then per reduction axis."""
        exprs = [const(e) if isinstance(e, int) else e for e in (*spatial, *reduce)]
        properties: dict[str, Attribute] = {
            "stage": StringAttr(stage),
            "extents": IndexMapAttr.get(exprs),
            "spatial": IntegerAttr(len(spatial), i64),
        }
        if combiner is not None:
            properties["combiner"] = StringAttr(combiner)
        return ComputeOp.create(operands=symbols, properties=properties, result_types=result_types, regions=[body])

    @property
    def stage_name(self) -> str:
        """The stage's name, by which schedules find it."""
        return self.stage.data

    @property
    def num_spatial(self) -> int:
        """The number of spatial axes, which index the result; the others are reduced."""
        return self.spatial.value.data

    @property
    def axes(self) -> Sequence[SSAValue]:
        """All axes: spatial, then reduction."""
        return self.body.block.args

    @property
    def static_extents(self) -> tuple[int, ...]:
        """The extents of all axes; UNBOUNDED of a symbolic one."""
        return tuple(size_of(e) for e in self.extents.data)

    @property
    def yield_op(self) -> YieldOp:
        """The terminator of the scalar body."""
        op = self.body.block.last_op
        assert isinstance(op, YieldOp)
        return op

    def verify_(self) -> None:
        block = self.body.block
        if len(block.args) != len(self.extents.data):
            raise VerifyException(
                f"expected one body argument per axis, but got {len(block.args)} for {len(self.extents.data)} axes"
            )
        if not isinstance(block.last_op, YieldOp):
            raise VerifyException("expected the body of te.compute to end in te.yield")
        reduces = len(self.extents.data) > self.num_spatial
        if reduces != (self.combiner is not None):
            raise VerifyException(
                "expected a combiner exactly where there are reduction axes: sum, prod, max, min, argmax, argmin"
            )
        self._verify_combiner()
        self._verify_results(block.last_op)

    def _verify_combiner(self) -> None:
        if self.combiner is None:
            return
        name = self.combiner.data
        if name not in COMBINERS and name not in PAIR_COMBINERS:
            known = ", ".join([*COMBINERS, *PAIR_COMBINERS])
            raise VerifyException(f"expected a combiner of {known}, but got '{name}'")
        if (name in PAIR_COMBINERS) != (len(self.results_) == 2):
            raise VerifyException(f"expected two results for argmax and argmin and one for the others, of '{name}'")

    def _verify_results(self, last: YieldOp) -> None:
        if len(last.values) != len(self.results_):
            raise VerifyException(f"expected te.yield of {len(self.results_)} values, but got {len(last.values)}")
        for value, result in zip(last.values, self.results_, strict=True):
            t = result.type
            assert isinstance(t, TensorType)
            if value.type != t.element_type:
                raise VerifyException(f"expected te.yield of type {t.element_type}, but got {value.type}")
            shape = tuple(t.get_shape())
            extents = self.extents.data[: self.num_spatial]
            same = len(shape) == len(extents) and all(
                s == -1 or not e.is_const or s == e.const for s, e in zip(shape, extents, strict=True)
            )
            if not same:
                raise VerifyException(
                    f"expected a result of shape {'x'.join(map(str, extents))} as the spatial axes say, but got {t}"
                )

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.stage.data)
        n = self.num_spatial
        printer.print_string(" ")
        self._print_axes(printer, slice(n))
        if self.combiner is not None:
            printer.print_string(" reduce ")
            self._print_axes(printer, slice(n, None))
            printer.print_string(f" {self.combiner.data}")
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)
        printer.print_string(" : ")
        printer.print_list(self.results_, lambda r: printer.print_attribute(r.type))

    def _print_axes(self, printer: Printer, which: slice) -> None:
        print_axes(printer, self.axes[which], [(e,) for e in self.extents.data[which]], self.symbols)

    @classmethod
    def read(cls, parser: Parser) -> ComputeOp:
        stage = parser.parse_str_literal(" as the stage's name")
        index = IndexParser(parser)
        spatial, reduce, combiner = index.axes(), (), None
        start = parser.pos
        if parser.parse_optional_keyword("reduce"):
            reduce = index.axes()
            combiner = parser.parse_identifier(" as the combiner: sum, prod, max, min, argmax or argmin")
        elif (word := parser.parse_optional_identifier()) is not None:
            parser.raise_error(f"expected the axes that '{word}' reduces, `reduce (%k : 8) {word}`, before it", start)
        body = parser.parse_region([a.argument for a in (*spatial, *reduce)])
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        extents = [a.extent for a in spatial], [a.extent for a in reduce]
        return ComputeOp.make(stage, *extents, combiner, types, body, index.operands())


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The value(s) of one element: `te.yield %v : f32`."""

    name = "te.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "($values^ `:` type($values))? attr-dict"


@irdl_op_definition
class ReadOp(MaskedReadOp, VerifiedAround):
    """
    One element of a tensor: `%v = te.read %x[%i, %k * 2 + 1] mask (%i - 1) else %zero : f32`.

    Operands: the tensor, the index operands of `map` (and of `mask`), and last the else value where there is a mask.
    """

    name = "te.read"

    tensor = operand_def(TensorType)
    rest = var_operand_def()

    traits = traits_def(Pure())
    N_FIXED: ClassVar = 1

    @staticmethod
    def make(
        tensor: SSAValue,
        exprs: Sequence[Index],
        operands: Sequence[SSAValue],
        mask: Sequence[Index] = (),
        otherwise: SSAValue | None = None,
    ) -> ReadOp:
        """A read at index expressions over `operands`."""
        t = tensor.type
        assert isinstance(t, TensorType)
        properties: dict[str, Attribute] = {"map": IndexMapAttr.get(exprs)}
        rest = list(operands)
        if mask:
            assert otherwise is not None
            properties["mask"] = IndexMapAttr.get(mask)
            rest.append(otherwise)
        return ReadOp.create(operands=[tensor, *rest], properties=properties, result_types=[t.element_type])

    def verify_(self) -> None:
        t = self.tensor.type
        assert isinstance(t, TensorType)
        verify_access(self.map.data, self.mask and self.mask.data, self.indices, t.get_num_dims())
        if self.result.type != t.element_type:
            raise VerifyException(f"expected a result of type {t.element_type}, but got {self.result.type}")
        self.verify_otherwise()
        if not is_probe(self):
            self.verify_around()

    def verify_around(self) -> None:
        """Affine indices over the axes of the stage alone, all of known extents, lie inside of the tensor."""
        stage = self.parent_op()
        if self.mask is not None or not isinstance(stage, ComputeOp) or len(stage.axes) != len(stage.static_extents):
            return
        extents = dict(zip(stage.axes, stage.static_extents, strict=True))
        sizes = [extents.get(operand, UNBOUNDED) for operand in self.indices]
        if any(size in (0, UNBOUNDED) for size in sizes):
            return
        ranges = {number: axis_range(size) for number, size in enumerate(sizes)}
        for axis, (expr, size) in enumerate(zip(self.map.data, _shape(self.tensor), strict=True)):
            if not expr.is_affine or size < 0:
                continue
            low, high = expr.bounds(ranges)
            if low < 0 or high >= size:
                span = f"but it spans {low}..{high}; give it a mask"
                where = f"on axis {axis} of {self.tensor.type}"
                raise VerifyException(f"expected an index in 0..{size - 1} {where}, {span}")

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_access(printer, self.tensor, self.map, self.indices, self.mask, self.otherwise)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def read(cls, parser: Parser) -> ReadOp:
        access = parse_access(parser)
        parser.parse_punctuation(":")
        element = parser.parse_type()
        operands = access.all_operands(parser, element)
        return ReadOp.create(operands=operands, properties=access.properties, result_types=[element])


@irdl_op_definition
class IndexOp(TextOp):
    """An index expression as a value: `%v = te.index %i * 2 + 1`."""

    name = "te.index"
    args = var_operand_def(IndexType)
    map = prop_def(IndexMapAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())

    @staticmethod
    def make(expr: Index, operands: Sequence[SSAValue]) -> IndexOp:
        return IndexOp.create(
            operands=operands, properties={"map": IndexMapAttr.get([expr])}, result_types=[IndexType()]
        )

    def verify_(self) -> None:
        if len(self.map.data) != 1:
            raise VerifyException(f"expected one index expression, but got {len(self.map.data)}")
        verify_access(self.map.data, None, self.args, 1)

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_exprs(printer, self.map.data, self.args)

    @classmethod
    def read(cls, parser: Parser) -> IndexOp:
        index = IndexParser(parser)
        return IndexOp.make(index.expr(), index.operands())


def build_body(axes: int) -> tuple[Region, Block]:
    """A region whose block has one index argument per axis."""
    block = Block(arg_types=[IndexType()] * axes)
    return Region(block), block


Te = Dialect("te", [FuncOp, ReturnOp, ComputeOp, YieldOp, ReadOp, IndexOp, ExternOp], [IndexMapAttr])
