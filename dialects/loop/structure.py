"""The structure of kernels: functions, loops, blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NoReturn

from xdsl.dialects.builtin import (
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    opt_region_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsTerminator,
    RecursiveMemoryEffect,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.access import IndexParser, print_axes, print_exprs, print_predicates, verify_access
from mlc.dialects.index import Index, IndexMapAttr, compact, const, size_of
from mlc.dialects.syntax.lexer import VALUE_TEXT
from mlc.dialects.syntax.recipes.probe import IsolatedKernel
from mlc.dialects.syntax.token_parser import TokenParser
from mlc.dialects.text import parse_bindings, parse_kernel, print_bindings, print_kernel
from mlc.dialects.value_names import value_name
from mlc.support.errors import did_you_mean

FOR_KINDS = ("serial", "parallel", "vectorized", "unrolled")


@irdl_op_definition
class FuncOp(IRDLOperation):
    """
    One kernel over buffers; the last `outputs` arguments are written.

    `loop.func @relu(%x: memref<8xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} { ... }`
    """

    name = "loop.func"

    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    outputs = prop_def(IntegerAttr)
    body = region_def("single_block")

    traits = traits_def(IsolatedKernel(), SymbolOpInterface())

    @staticmethod
    def make(name: str, args: Sequence[Attribute], outputs: int, body: Region) -> FuncOp:
        """A kernel over these buffers."""
        op = FuncOp(
            properties={
                "sym_name": StringAttr(name),
                "function_type": FunctionType.from_lists(args, []),
                "outputs": IntegerAttr(outputs, i64),
            },
            regions=[body],
        )
        _terminate(op)
        return op

    @property
    def args(self) -> Sequence[SSAValue]:
        """The buffers, followed by the symbols of the sizes."""
        return self.body.block.args

    @property
    def symbols(self) -> list[SSAValue]:
        """The arguments that are sizes."""
        return [a for a in self.args if not isinstance(a.type, MemRefType)]

    def verify_(self) -> None:
        if [a.type for a in self.args] != list(self.function_type.inputs.data):
            raise VerifyException("expected the body's arguments to have the types of the function")
        n, buffers = self.outputs.value.data, sum(isinstance(a.type, MemRefType) for a in self.args)
        if not 0 <= n <= buffers:
            raise VerifyException(f"expected at most {buffers} outputs, one per buffer, but got {n}")

    def print(self, printer: Printer) -> None:
        attributes = {"outputs": self.outputs, **self.attributes}
        print_kernel(printer, self.sym_name, self.function_type, self.body, attributes)

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        start = parser.pos
        kernel = parse_kernel(parser)
        outputs = kernel.attributes.pop("outputs", None)
        if not isinstance(outputs, IntegerAttr):
            message = "expected attributes {outputs = n}, the number of buffers that are written"
            parser.raise_error(message, start, start)
        op = FuncOp.make(kernel.name, kernel.inputs, outputs.value.data, kernel.body)
        op.attributes |= kernel.attributes
        return op


def _terminate(op: Operation) -> None:
    """Add the terminator that the custom syntax omits."""
    for region in op.regions:
        if len(region.blocks) == 1:
            block = region.block
            if block.last_op is None or not isinstance(block.last_op, YieldOp):
                block.add_op(YieldOp.create())


def _is_told(region: Region) -> bool:
    """Whether the custom syntax must print the terminator, because it has operands or attributes."""
    last = region.block.last_op
    return last is None or bool(last.operands or last.attributes)


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The values that a loop carries to its next iteration: `loop.yield %a : vector<4x16xf32>`."""

    name = "loop.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "($values^ `:` type($values))? attr-dict"


@irdl_op_definition
class ForOp(IRDLOperation):
    """
    A loop: `%r = loop.for %k = 0 to 784 iter_args(%a = %zero) -> vector<4x16xf32> { ... loop.yield %n : ... }`.

    Its kind is serial, parallel (iterations are independent and run on threads), vectorized or unrolled.
    Operands: the index operands of the bounds, then the initial values.
    """

    name = "loop.for"

    args = var_operand_def()
    bounds = prop_def(IndexMapAttr)
    kind = prop_def(StringAttr)
    results_ = var_result_def()
    body = region_def("single_block")

    traits = traits_def(RecursiveMemoryEffect())

    @staticmethod
    def make(
        upper: Index | int,
        body: Region | None = None,
        *,
        lower: Index | int = 0,
        operands: Sequence[SSAValue] = (),
        kind: str = "serial",
        iter_args: Sequence[SSAValue] = (),
        name: str | None = None,
    ) -> ForOp:
        """A loop from lower to upper (expressions over `operands`); without a body, an empty block is made."""
        exprs = [const(e) if isinstance(e, int) else e for e in (lower, upper)]
        exprs, dims = compact(exprs, operands)
        types = [v.type for v in iter_args]
        if body is None:
            body = Region(Block(arg_types=[IndexType(), *types]))
            if name:
                body.block.args[0].name_hint = value_name(name)
        return ForOp.create(
            operands=[*dims, *iter_args],
            properties={"bounds": IndexMapAttr.get(exprs), "kind": KINDS[kind]},
            result_types=types,
            regions=[body],
        )

    @property
    def lower(self) -> Index:
        """The first value of the index."""
        return self.bounds.data[0]

    @property
    def upper(self) -> Index:
        """One past the last value of the index."""
        return self.bounds.data[1]

    @property
    def extent(self) -> int | None:
        """The number of iterations, where it is static."""
        extent = self.upper - self.lower
        return max(extent.const, 0) if extent.is_const else None

    @property
    def iv(self) -> SSAValue:
        """The index."""
        return self.body.block.args[0]

    @property
    def indices(self) -> Sequence[SSAValue]:
        """The index operands of the bounds."""
        return self.operands[: self.bounds.arity]

    @property
    def iter_args(self) -> Sequence[SSAValue]:
        """The initial values of the carried values."""
        return self.operands[self.bounds.arity :]

    @property
    def carried(self) -> Sequence[SSAValue]:
        """The carried values: the block arguments after the index."""
        return self.body.block.args[1:]

    @property
    def yield_op(self) -> YieldOp:
        """The terminator."""
        op = self.body.block.last_op
        assert isinstance(op, YieldOp)
        return op

    def verify_(self) -> None:
        if self.kind.data not in FOR_KINDS and not self.kind.data.startswith("bind:"):
            raise VerifyException(f"expected a kind of {', '.join(FOR_KINDS)}, but got '{self.kind.data}'")
        block = self.body.block
        if not isinstance(block.last_op, YieldOp):
            raise VerifyException("expected the body of loop.for to end in loop.yield")
        types = [r.type for r in self.results]
        for what, values in (
            ("initial values", self.iter_args),
            ("body arguments", block.args[1:]),
            ("yielded values", block.last_op.values),
        ):
            if [v.type for v in values] != types:
                got = ", ".join(str(v.type) for v in values)
                raise VerifyException(f"expected {what} of types ({', '.join(map(str, types))}), but got ({got})")
        if types and self.kind.data == "parallel":
            raise VerifyException("expected a parallel loop to carry no values; its iterations are independent")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.iv)
        printer.print_string(" = ")
        print_exprs(printer, [self.lower], self.indices)
        printer.print_string(" to ")
        print_exprs(printer, [self.upper], self.indices)
        if self.kind.data != "serial":
            kind = self.kind.data
            printer.print_string(f' bind "{kind[5:]}"' if kind.startswith("bind:") else f" {kind}")
        if self.results:
            printer.print_string(" iter_args")
            print_bindings(printer, self.carried, self.iter_args)
            printer.print_string(" -> ")
            printer.print_list(self.results, lambda r: printer.print_attribute(r.type))
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_block_terminators=_is_told(self.body))
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        iv, bounds, operands = _parse_bounds(parser)
        kind = parser.parse_optional_keyword_in(FOR_KINDS) or "serial"
        if parser.parse_optional_keyword("bind"):
            kind = "bind:" + parser.parse_str_literal(" as the device axis")
        carried: list[tuple[Parser.UnresolvedArgument, SSAValue]] = []
        types: list[Attribute] = []
        start = parser.pos
        word = parser.parse_optional_identifier()
        if word not in (None, "iter_args"):
            _refuse_kind(parser, word, start)
        if word is not None:
            carried = parse_bindings(parser)
            parser.parse_punctuation("->")
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
            if len(types) != len(carried):
                parser.raise_error(f"expected {len(carried)} types, one per carried value, but got {len(types)}")
        body = parser.parse_region([iv, *(a.resolve(t) for (a, _), t in zip(carried, types, strict=True))])
        op = ForOp.create(
            operands=[*operands(), *(v for _, v in carried)],
            properties={"bounds": bounds, "kind": KINDS.get(kind) or StringAttr(kind)},
            result_types=types,
            regions=[body],
        )
        _terminate(op)
        if (extra := parser.parse_optional_attr_dict_with_keyword()) is not None:
            op.attributes |= extra.data
        return op


def _parse_bounds(parser: Parser) -> tuple[Parser.Argument, IndexMapAttr, Callable[[], Sequence[SSAValue]]]:
    """`%i = 0 to 64`: the index, the bounds, and what resolves their operands."""
    if isinstance(parser, TokenParser) and (match := parser.take(_BOUNDS)) is not None:
        return parser.argument(match, IndexType()), _constants(int(match[2]), int(match[3])), tuple
    iv = parser.parse_argument(expect_type=False).resolve(IndexType())
    parser.parse_punctuation("=")
    index = IndexParser(parser)
    lower = index.expr()
    parser.parse_keyword("to")
    return iv, IndexMapAttr.get([lower, index.expr()]), index.operands


@lru_cache(1 << 10)
def _constants(lower: int, upper: int) -> IndexMapAttr:
    return IndexMapAttr.get([const(lower), const(upper)])


def _refuse_kind(parser: Parser, word: str, start: int) -> NoReturn:
    remedy = "; the step is 1" if word == "step" else did_you_mean(word, FOR_KINDS)
    kinds = ", ".join(FOR_KINDS)
    parser.raise_error(f"expected a kind of loop ({kinds}, bind \"axis\"), but got '{word}'{remedy}", start)


# Constant bounds, after which nothing may go on with an expression.
_BOUNDS = re.compile(
    rf"({VALUE_TEXT})\s*=\s*([0-9]+)\s+to\s+([0-9]+)(?=\s+(?:(?:{'|'.join(FOR_KINDS)})\s+)?\{{)", re.ASCII
)
KINDS = {kind: StringAttr(kind) for kind in FOR_KINDS}


@irdl_op_definition
class BlockOp(IRDLOperation):
    """
    A computation on scalars at one point of its iteration space: the unit that schedules transform, as TVM's block.

    `loop.block "dense" (%vi : 16 = %i * 4 + %ii) reduce (%vk : 784 = %k) where (783 - %k) init { ... } { ... }`
    An extent may be an expression of the kernel's symbols.
    Each axis is spatial (each of its points is written once) or a reduction, with its extent and its value as an
    expression of the loops. `init` runs before the body where all reduction axes are 0.
    The block runs only where all `where` expressions are >= 0. `combine { ^bb0(so far, new): ... }` says that the
    block reduces by this commutative, associative function; without it by the op that its body shows.
    """

    name = "loop.block"

    args = var_operand_def(IndexType)
    block_name = prop_def(StringAttr)
    extents = prop_def(IndexMapAttr)
    spatial = prop_def(IntegerAttr)
    bindings = prop_def(IndexMapAttr)
    where = opt_prop_def(IndexMapAttr)
    init = region_def()
    body = region_def("single_block")
    combine = opt_region_def("single_block")

    traits = traits_def(RecursiveMemoryEffect())

    @staticmethod
    def make(
        name: str,
        extents: Sequence[int | Index],
        spatial: int,
        bindings: Sequence[Index],
        operands: Sequence[SSAValue],
        body: Region,
        init: Region | None = None,
        where: Sequence[Index] = (),
        combine: Region | None = None,
    ) -> BlockOp:
        """A block; `extents`, `bindings` and `where` are expressions over `operands` (loops around, symbols)."""
        sizes = [const(e) if isinstance(e, int) else e for e in extents]
        n = len(sizes)
        exprs, dims = compact([*sizes, *bindings, *where], operands)
        properties: dict[str, Attribute] = {
            "block_name": StringAttr(name),
            "extents": IndexMapAttr.get(exprs[:n]),
            "spatial": IntegerAttr(spatial, i64),
            "bindings": IndexMapAttr.get(exprs[n : n + len(bindings)]),
        }
        if where:
            properties["where"] = IndexMapAttr.get(exprs[n + len(bindings) :])
        regions = [init if init is not None else Region(), body, *([] if combine is None else [combine])]
        op = BlockOp.create(operands=dims, properties=properties, regions=regions)
        _terminate(op)
        return op

    @property
    def name_(self) -> str:
        """The block's name, by which schedules find it."""
        return self.block_name.data

    @property
    def num_spatial(self) -> int:
        """The number of spatial axes; the others are reductions."""
        return self.spatial.value.data

    @property
    def static_extents(self) -> tuple[int, ...]:
        """The extents of all axes; UNBOUNDED of a symbolic one."""
        return tuple(size_of(e) for e in self.extents.data)

    @property
    def where_exprs(self) -> tuple[Index, ...]:
        """The block's predicate."""
        return self.where.data if self.where is not None else ()

    @property
    def has_init(self) -> bool:
        """Whether the block initializes its reduction itself."""
        return bool(self.init.blocks)

    def verify_(self) -> None:
        n = len(self.extents.data)
        if len(self.bindings.data) != n:
            raise VerifyException(f"expected {n} bindings, one per axis, but got {len(self.bindings.data)}")
        if not 0 <= self.num_spatial <= n:
            raise VerifyException(f"expected at most {n} spatial axes, but got {self.num_spatial}")
        verify_access(self.bindings.data, (*self.where_exprs, *self.extents.data), self.args, n)
        regions = [self.body] + ([self.init] if self.has_init else [])
        for region in regions:
            if [a.type for a in region.block.args] != [IndexType()] * n:
                raise VerifyException(f"expected one index argument per axis ({n}) in the block's regions")
        if self.combine is not None and n == self.num_spatial:
            raise VerifyException("expected a combine region only in a block with reduction axes")
        if self.combine is not None:
            self._verify_combine(self.combine.block)
        if self.has_init and n == self.num_spatial:
            raise VerifyException("expected an init region only in a block with reduction axes")

    def _verify_combine(self, block: Block) -> None:
        """It maps the values so far and new ones, of the same types, to values of these types."""
        types = [a.type for a in block.args]
        half = len(types) // 2
        last = block.last_op
        got = [v.type for v in last.operands] if last is not None else []
        if not half or types[:half] != types[half:] or got != types[:half]:
            raise VerifyException("expected the combine region to map two groups of values of equal types to one")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.block_name.data)
        printer.print_string(" ")
        n = self.num_spatial
        axes = self.body.block.args
        columns = [*zip(self.extents.data, self.bindings.data, strict=True)]
        print_axes(printer, axes[:n], columns[:n], self.args)
        if len(axes) > n:
            printer.print_string(" reduce ")
            print_axes(printer, axes[n:], columns[n:], self.args)
        print_predicates(printer, "where", self.where, self.args)
        if self.combine is not None:
            printer.print_string(" combine ")
            printer.print_region(self.combine)
        if self.has_init:
            printer.print_string(" init ")
            printer.print_region(self.init, print_block_terminators=_is_told(self.init))
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_block_terminators=_is_told(self.body))
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> BlockOp:
        name = parser.parse_str_literal(" as the block's name")
        index = IndexParser(parser)
        axes = [*index.axes(bound=True)]
        spatial = len(axes)
        if parser.parse_optional_keyword("reduce"):
            axes += index.axes(bound=True)
        where = index.predicates("where")
        combine = parser.parse_region() if parser.parse_optional_keyword("combine") else None
        init = parser.parse_region() if parser.parse_optional_keyword("init") else Region()
        body = parser.parse_region([a.argument for a in axes])
        op = BlockOp.make(
            name,
            [a.extent for a in axes],
            spatial,
            [a.binding for a in axes],
            index.operands(),
            body,
            init,
            where,
            combine,
        )
        if (extra := parser.parse_optional_attr_dict_with_keyword()) is not None:
            op.attributes |= extra.data
        return op
