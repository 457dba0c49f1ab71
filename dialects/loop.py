"""
loop: the order of the work - loop nests over buffers, blocks, and register tiles as n-D vector values.

    kernel ::= `loop.func` @name `(` memref args `)` `attributes` {outputs = n} region      the last n are written
    nest   ::= `loop.for` %i `=` lo `to` hi kind? (`iter_args` `(` %a `=` %v,* `)` `->` types)? region
             | `loop.block` "name" axes (`reduce` axes)? (`where` `(` expr,* `)`)? (`init` region)? region
    axes   ::= `(` (%v `:` extent `=` expr),* `)`
             | %b `=` `loop.alloc` "scope" `:` memref
    access ::= `loop.load` %A `[` expr,* `]` mask? tile? `:` type       | `loop.store` %v `,` %A `[` expr,* `]` mask? tile?
             | `loop.gather` %A `[` expr,* `]` `by` %index `at` dim tile `:` type
    mask   ::= `mask` `(` expr,* `)` (`else` %fill)?    every expression must be >= 0, lane by lane
    tile   ::= `tile` `(` (dN `:` size),* `)`
    value  ::= `loop.fma` | `loop.broadcast` | `loop.reduce` | `loop.compare` | `loop.select` | `loop.cast`
             | `loop.index`
             | upstream arith.* and math.* on scalars and on equal vector types

Loops run from `lo` to `hi` in steps of one. A tile access names the tile axes d0, d1, ... in its index expressions; an
axis that does not occur has size 1 in the value ("broadcast"). Operands of a kernel do not alias.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    VectorType,
    i1,
    i64,
)
from xdsl.dialects.utils import parse_func_op_like, print_func_op_like
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
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
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    Pure,
    RecursiveMemoryEffect,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.combiner import COMBINERS
from mlc.dialects.index import Index, IndexMapAttr, IndexParser, compact, const, print_exprs
from mlc.dialects.te import parse_mask, print_mask, verify_access

FOR_KINDS = ("serial", "parallel", "vectorized", "unrolled")
SCOPES = ("local", "shared", "global")
COMPARES = (
    "oeq",
    "one",
    "olt",
    "ole",
    "ogt",
    "oge",
    "une",
    "eq",
    "ne",
    "slt",
    "sle",
    "sgt",
    "sge",
    "ult",
    "ule",
    "ugt",
    "uge",
)
CASTS = (
    "sitofp",
    "uitofp",
    "fptosi",
    "fptoui",
    "extf",
    "truncf",
    "extsi",
    "extui",
    "trunci",
    "index_cast",
    "bitcast",
)


def i64_array(values: Sequence[int]) -> DenseArrayBase:
    """A dense array attribute of sizes or axes."""
    return DenseArrayBase.from_list(i64, list(values))


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

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

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
        """The buffers (and, behind them, the symbols of the sizes)."""
        return self.body.block.args

    def verify_(self) -> None:
        if [a.type for a in self.args] != list(self.function_type.inputs.data):
            raise VerifyException("expected the body's arguments to have the types of the function")
        n, buffers = self.outputs.value.data, sum(isinstance(a.type, MemRefType) for a in self.args)
        if not 0 <= n <= buffers:
            raise VerifyException(f"expected at most {buffers} outputs, one per buffer, but got {n}")

    def print(self, printer: Printer) -> None:
        print_func_op_like(
            printer,
            self.sym_name,
            self.function_type,
            self.body,
            {"outputs": self.outputs, **self.attributes},
            reserved_attr_names=("sym_name", "function_type"),
        )

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        name, inputs, _, region, extra, _, _ = parse_func_op_like(
            parser, reserved_attr_names=("sym_name", "function_type")
        )
        attributes = dict(extra.data) if extra is not None else {}
        outputs = attributes.pop("outputs", None)
        if not isinstance(outputs, IntegerAttr):
            parser.raise_error("expected attributes {outputs = n}, the number of buffers that are written")
        op = FuncOp.make(name, list(inputs), outputs.value.data, region)
        op.attributes |= attributes
        return op


def _terminate(op: Operation) -> None:
    """Add the terminator that the custom syntax leaves out."""
    for region in op.regions:
        if len(region.blocks) == 1:
            block = region.block
            if block.last_op is None or not isinstance(block.last_op, YieldOp):
                block.add_op(YieldOp.create())


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
                body.block.args[0].name_hint = name
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
        """The operands that the bounds number."""
        return self.operands[: self.bounds.arity]

    @property
    def iter_args(self) -> Sequence[SSAValue]:
        """The initial values of what the loop carries."""
        return self.operands[self.bounds.arity :]

    @property
    def carried(self) -> Sequence[SSAValue]:
        """What the loop carries, inside its body."""
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
            printer.print_string(" iter_args(")
            for i, (a, v) in enumerate(zip(self.carried, self.iter_args, strict=True)):
                printer.print_string(", " if i else "")
                printer.print_ssa_value(a)
                printer.print_string(" = ")
                printer.print_operand(v)
            printer.print_string(") -> ")
            printer.print_list(self.results, lambda r: printer.print_attribute(r.type))
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_block_terminators=bool(self.results))
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        iv = parser.parse_argument(expect_type=False).resolve(IndexType())
        parser.parse_punctuation("=")
        index = IndexParser(parser)
        lower = index.expr()
        parser.parse_keyword("to")
        upper = index.expr()
        kind = parser.parse_optional_keyword_in(FOR_KINDS) or "serial"
        if parser.parse_optional_keyword("bind"):
            kind = "bind:" + parser.parse_str_literal("the device axis")
        carried: list[tuple[Parser.UnresolvedArgument, SSAValue]] = []
        types: list[Attribute] = []
        if parser.parse_optional_keyword("iter_args"):

            def pair() -> tuple[Parser.UnresolvedArgument, SSAValue]:
                arg = parser.parse_argument(expect_type=False)
                parser.parse_punctuation("=")
                return arg, parser.parse_operand()

            carried = parser.parse_comma_separated_list(parser.Delimiter.PAREN, pair)
            parser.parse_punctuation("->")
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
            if len(types) != len(carried):
                parser.raise_error(f"expected {len(carried)} types, one per carried value, but got {len(types)}")
        body = parser.parse_region([iv, *(a.resolve(t) for (a, _), t in zip(carried, types, strict=True))])
        op = ForOp.create(
            operands=[*index.operands(), *(v for _, v in carried)],
            properties={"bounds": IndexMapAttr.get([lower, upper]), "kind": StringAttr(kind)},
            result_types=types,
            regions=[body],
        )
        _terminate(op)
        if (extra := parser.parse_optional_attr_dict_with_keyword()) is not None:
            op.attributes |= extra.data
        return op


KINDS = {kind: StringAttr(kind) for kind in FOR_KINDS}


@irdl_op_definition
class BlockOp(IRDLOperation):
    """
    A computation on scalars at one point of its iteration space: what schedules move about.

    `loop.block "dense" (%vi : 16 = %i * 4 + %ii) reduce (%vk : 784 = %k) where (783 - %k) init { ... } { ... }`
    The axes are declared spatial (each point of them is written once) or reducing, with their extents and the
    expression of the loops that gives their value. `init` runs where all reduction axes are 0, before the body.
    The block runs only where all `where` expressions are >= 0.
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

    traits = traits_def(RecursiveMemoryEffect())

    @staticmethod
    def make(
        name: str,
        extents: Sequence[int],
        spatial: int,
        bindings: Sequence[Index],
        operands: Sequence[SSAValue],
        body: Region,
        init: Region | None = None,
        where: Sequence[Index] = (),
    ) -> BlockOp:
        """A block; `bindings` and `where` are expressions over `operands` (the loops around)."""
        exprs, dims = compact([*bindings, *where], operands)
        properties: dict[str, Attribute] = {
            "block_name": StringAttr(name),
            "extents": IndexMapAttr.get(const(e) for e in extents),
            "spatial": IntegerAttr(spatial, i64),
            "bindings": IndexMapAttr.get(exprs[: len(bindings)]),
        }
        if where:
            properties["where"] = IndexMapAttr.get(exprs[len(bindings) :])
        op = BlockOp.create(
            operands=dims, properties=properties, regions=[init if init is not None else Region(), body]
        )
        _terminate(op)
        return op

    @property
    def name_(self) -> str:
        """The block's name, by which schedules find it."""
        return self.block_name.data

    @property
    def num_spatial(self) -> int:
        """How many axes are spatial; the others reduce."""
        return self.spatial.value.data

    @property
    def static_extents(self) -> tuple[int, ...]:
        """The extents of all axes."""
        return tuple(e.const for e in self.extents.data)

    @property
    def where_exprs(self) -> tuple[Index, ...]:
        """The block's predicate."""
        return self.where.data if self.where is not None else ()

    @property
    def has_init(self) -> bool:
        """Whether the reduction still starts inside the block."""
        return bool(self.init.blocks)

    def verify_(self) -> None:
        n = len(self.extents.data)
        if len(self.bindings.data) != n:
            raise VerifyException(f"expected {n} bindings, one per axis, but got {len(self.bindings.data)}")
        verify_access(self.bindings.data, self.where_exprs, self.args, n)
        regions = [self.body] + ([self.init] if self.has_init else [])
        for region in regions:
            if [a.type for a in region.block.args] != [IndexType()] * n:
                raise VerifyException(f"expected one index argument per axis ({n}) in the block's regions")
        if self.has_init and n == self.num_spatial:
            raise VerifyException("expected an init region only in a block with reduction axes")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.block_name.data)
        printer.print_string(" ")
        n = self.num_spatial
        args = self.body.block.args
        self._print_axes(printer, args, range(n))
        if len(args) > n:
            printer.print_string(" reduce ")
            self._print_axes(printer, args, range(n, len(args)))
        if self.where is not None:
            printer.print_string(" where (")
            print_exprs(printer, self.where.data, self.args)
            printer.print_string(")")
        if self.has_init:
            printer.print_string(" init ")
            printer.print_region(self.init, print_block_terminators=False)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_block_terminators=False)
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)

    def _print_axes(self, printer: Printer, args: Sequence[SSAValue], which: range) -> None:
        with printer.in_parens():
            for i in which:
                printer.print_string(", " if i != which.start else "")
                printer.print_ssa_value(args[i])
                printer.print_string(f" : {self.extents.data[i]} = ")
                print_exprs(printer, [self.bindings.data[i]], self.args)

    @classmethod
    def parse(cls, parser: Parser) -> BlockOp:
        name = parser.parse_str_literal("the block's name")
        index = IndexParser(parser)

        def axis() -> tuple[Parser.Argument, int, Index]:
            arg = parser.parse_argument(expect_type=False).resolve(IndexType())
            parser.parse_punctuation(":")
            extent = parser.parse_integer(allow_boolean=False)
            parser.parse_punctuation("=")
            return arg, extent, index.expr()

        axes = parser.parse_comma_separated_list(parser.Delimiter.PAREN, axis)
        spatial = len(axes)
        if parser.parse_optional_keyword("reduce"):
            axes += parser.parse_comma_separated_list(parser.Delimiter.PAREN, axis)
        where = index.list(parser.Delimiter.PAREN) if parser.parse_optional_keyword("where") else ()
        init = parser.parse_region() if parser.parse_optional_keyword("init") else Region()
        body = parser.parse_region([a for a, _, _ in axes])
        op = BlockOp.make(
            name,
            [e for _, e, _ in axes],
            spatial,
            [b for _, _, b in axes],
            index.operands(),
            body,
            init,
            where,
        )
        if (extra := parser.parse_optional_attr_dict_with_keyword()) is not None:
            op.attributes |= extra.data
        return op


@irdl_op_definition
class AllocOp(IRDLOperation):
    """
    A buffer: `%b = loop.alloc "local" : memref<4x16xf32>`.

    Scope "local" is private to a thread (registers once promoted, else scratch); "shared" is the workspace of the
    kernel, seen by all threads.
    """

    name = "loop.alloc"
    scope = prop_def(StringAttr)
    result = result_def(MemRefType)

    @staticmethod
    def make(type: MemRefType, scope: str = "shared", name: str | None = None) -> AllocOp:
        """A buffer of this type and scope."""
        op = AllocOp.create(properties={"scope": StringAttr(scope)}, result_types=[type])
        op.result.name_hint = name
        return op

    def verify_(self) -> None:
        if self.scope.data not in SCOPES:
            raise VerifyException(f"expected a scope of {', '.join(SCOPES)}, but got '{self.scope.data}'")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.scope.data)
        if self.attributes:
            printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> AllocOp:
        scope = parser.parse_str_literal("the scope")
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = AllocOp.create(properties={"scope": StringAttr(scope)}, result_types=[parser.parse_type()])
        op.attributes |= attributes
        return op


# --- accesses ----------------------------------------------------------------------------------------------------


def tile_shape(exprs: Sequence[Index], tile: Sequence[int]) -> tuple[int, ...]:
    """The shape of a tile access: an axis that no expression uses has size 1."""
    return tuple(n if any(e.uses(-1 - k) for e in exprs) else 1 for k, n in enumerate(tile))


class _Access(IRDLOperation):
    """What loads, stores and gathers share: buffer, map, mask, tile."""

    @property
    def tile_sizes(self) -> tuple[int, ...]:
        """The sizes of the tile axes; () for a scalar access."""
        tile = self.properties.get("tile")
        return tuple(tile.get_values()) if isinstance(tile, DenseArrayBase) else ()

    @property
    def mask_exprs(self) -> tuple[Index, ...]:
        """The mask's expressions."""
        mask = self.properties.get("mask")
        return mask.data if isinstance(mask, IndexMapAttr) else ()

    def _verify_value(self, buffer: SSAValue, value: Attribute, exprs: Sequence[Index]) -> None:
        t = buffer.type
        assert isinstance(t, MemRefType)
        if not self.tile_sizes:
            expected: Attribute = t.element_type
        else:
            expected = VectorType(t.element_type, tile_shape(exprs, self.tile_sizes))
        if value != expected:
            raise VerifyException(f"expected a value of type {expected} for this access, but got {value}")

    def _print_tile(self, printer: Printer) -> None:
        if self.tile_sizes:
            sizes = ", ".join(f"d{k} : {n}" for k, n in enumerate(self.tile_sizes))
            printer.print_string(f" tile ({sizes})")

    @staticmethod
    def _parse_tile(parser: Parser) -> DenseArrayBase | None:
        if not parser.parse_optional_keyword("tile"):
            return None

        def axis() -> tuple[str, int]:
            name = parser.parse_identifier("a tile axis")
            parser.parse_punctuation(":")
            return name, parser.parse_integer(allow_boolean=False)

        axes = parser.parse_comma_separated_list(parser.Delimiter.PAREN, axis)
        for k, (name, _) in enumerate(axes):
            if name != f"d{k}":
                parser.raise_error(f"expected tile axis d{k}, but got '{name}'")
        return i64_array([n for _, n in axes])


@irdl_op_definition
class LoadOp(_Access):
    """
    Read an element or a tile: `%l = loop.load %A[%i + d0, %k] tile (d0 : 12, d1 : 32) : vector<12x1xf32>`.

    Operands: the buffer, the index operands of map and mask, and last the else value where there is a mask.
    The else value has the type of the result.
    """

    name = "loop.load"

    buffer = operand_def(MemRefType)
    rest = var_operand_def()
    map = prop_def(IndexMapAttr)
    mask = opt_prop_def(IndexMapAttr)
    tile = opt_prop_def(DenseArrayBase)
    result = result_def()

    @staticmethod
    def make(
        buffer: SSAValue,
        exprs: Sequence[Index],
        operands: Sequence[SSAValue],
        tile: Sequence[int] = (),
        mask: Sequence[Index] = (),
        otherwise: SSAValue | None = None,
    ) -> LoadOp:
        """A load at expressions over `operands`; with `tile`, of a vector."""
        t = buffer.type
        assert isinstance(t, MemRefType)
        all_exprs, dims = compact([*exprs, *mask], operands)
        n = len(exprs)
        properties: dict[str, Attribute] = {"map": IndexMapAttr(all_exprs[:n])}
        if mask:
            assert otherwise is not None
            properties["mask"] = IndexMapAttr(all_exprs[n:])
            dims.append(otherwise)
        result: Attribute = t.element_type
        if tile:
            properties["tile"] = i64_array(tile)
            result = VectorType(t.element_type, tile_shape([*exprs, *mask], tile))
        return LoadOp.create(operands=[buffer, *dims], properties=properties, result_types=[result])

    @property
    def indices(self) -> Sequence[SSAValue]:
        """The operands that map and mask number."""
        return self.operands[1:-1] if self.mask is not None else self.operands[1:]

    @property
    def otherwise(self) -> SSAValue | None:
        """The value where the mask does not hold."""
        return self.operands[-1] if self.mask is not None else None

    def verify_(self) -> None:
        t = self.buffer.type
        assert isinstance(t, MemRefType)
        verify_access(self.map.data, self.mask_exprs, self.indices, t.get_num_dims(), len(self.tile_sizes))
        self._verify_value(self.buffer, self.result.type, [*self.map.data, *self.mask_exprs])
        if self.otherwise is not None and self.otherwise.type != self.result.type:
            raise VerifyException(f"expected an else value of type {self.result.type}, but got {self.otherwise.type}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.buffer)
        with printer.in_square_brackets():
            print_exprs(printer, self.map.data, self.indices)
        print_mask(printer, self.mask, self.indices, self.otherwise)
        self._print_tile(printer)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)
        if self.attributes:
            printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        buffer = parser.parse_operand()
        index = IndexParser(parser)
        exprs = index.list()
        mask, otherwise = parse_mask(parser, index)
        tile = cls._parse_tile(parser)
        parser.parse_punctuation(":")
        result = parser.parse_type()
        operands = [buffer, *index.operands()]
        properties: dict[str, Attribute] = {"map": IndexMapAttr.get(exprs)}
        if mask is not None and otherwise is not None:
            properties["mask"] = IndexMapAttr.get(mask)
            operands.append(parser.resolve_operand(otherwise, result))
        if tile is not None:
            properties["tile"] = tile
        op = LoadOp.create(operands=operands, properties=properties, result_types=[result])
        op.attributes |= parser.parse_optional_attr_dict()
        return op


@irdl_op_definition
class StoreOp(_Access):
    """
    Write an element or a tile: `loop.store %v, %C[%i + d0, %j + d1] tile (d0 : 12, d1 : 32)`.

    Operands: the value, the buffer, the index operands of map and mask. Lanes off the mask are not written.
    """

    name = "loop.store"

    value = operand_def()
    buffer = operand_def(MemRefType)
    rest = var_operand_def(IndexType)
    map = prop_def(IndexMapAttr)
    mask = opt_prop_def(IndexMapAttr)
    tile = opt_prop_def(DenseArrayBase)

    @staticmethod
    def make(
        value: SSAValue,
        buffer: SSAValue,
        exprs: Sequence[Index],
        operands: Sequence[SSAValue],
        tile: Sequence[int] = (),
        mask: Sequence[Index] = (),
    ) -> StoreOp:
        """A store at expressions over `operands`; with `tile`, of a vector."""
        all_exprs, dims = compact([*exprs, *mask], operands)
        properties: dict[str, Attribute] = {"map": IndexMapAttr(all_exprs[: len(exprs)])}
        if mask:
            properties["mask"] = IndexMapAttr(all_exprs[len(exprs) :])
        if tile:
            properties["tile"] = i64_array(tile)
        return StoreOp.create(operands=[value, buffer, *dims], properties=properties)

    @property
    def indices(self) -> Sequence[SSAValue]:
        """The operands that map and mask number."""
        return self.operands[2:]

    def verify_(self) -> None:
        t = self.buffer.type
        assert isinstance(t, MemRefType)
        verify_access(self.map.data, self.mask_exprs, self.indices, t.get_num_dims(), len(self.tile_sizes))
        self._verify_value(self.buffer, self.value.type, self.map.data)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.value)
        printer.print_string(", ")
        printer.print_operand(self.buffer)
        with printer.in_square_brackets():
            print_exprs(printer, self.map.data, self.indices)
        print_mask(printer, self.mask, self.indices, None)
        self._print_tile(printer)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)
        if self.attributes:
            printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> StoreOp:
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        buffer = parser.parse_operand()
        index = IndexParser(parser)
        exprs = index.list()
        mask, _ = parse_mask(parser, index, with_else=False)
        tile = cls._parse_tile(parser)
        parser.parse_punctuation(":")
        v = parser.resolve_operand(value, parser.parse_type())
        properties: dict[str, Attribute] = {"map": IndexMapAttr.get(exprs)}
        if mask is not None:
            properties["mask"] = IndexMapAttr.get(mask)
        if tile is not None:
            properties["tile"] = tile
        op = StoreOp.create(operands=[v, buffer, *index.operands()], properties=properties)
        op.attributes |= parser.parse_optional_attr_dict()
        return op


@irdl_op_definition
class IndexOp(_Access):
    """An index expression as a value: `%v = loop.index %i * 2 + d0 tile (d0 : 16) : vector<16xindex>`."""

    name = "loop.index"

    args = var_operand_def(IndexType)
    map = prop_def(IndexMapAttr)
    tile = opt_prop_def(DenseArrayBase)
    result = result_def()
    traits = traits_def(Pure())

    @staticmethod
    def make(expr: Index, operands: Sequence[SSAValue], tile: Sequence[int] = ()) -> IndexOp:
        """The value of an expression over `operands`."""
        exprs, dims = compact([expr], operands)
        properties: dict[str, Attribute] = {"map": IndexMapAttr(exprs)}
        result: Attribute = IndexType()
        if tile:
            properties["tile"] = i64_array(tile)
            result = VectorType(IndexType(), tile_shape([expr], tile))
        return IndexOp.create(operands=dims, properties=properties, result_types=[result])

    def verify_(self) -> None:
        verify_access(self.map.data, None, self.args, 1, len(self.tile_sizes))
        expected: Attribute = IndexType()
        if self.tile is not None:
            expected = VectorType(IndexType(), tile_shape(self.map.data, self.tile_sizes))
        if self.result.type != expected:
            raise VerifyException(f"expected a result of type {expected}, but got {self.result.type}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_exprs(printer, self.map.data, self.args)
        self._print_tile(printer)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> IndexOp:
        index = IndexParser(parser)
        expr = index.expr()
        tile = cls._parse_tile(parser)
        parser.parse_punctuation(":")
        result = parser.parse_type()
        properties: dict[str, Attribute] = {"map": IndexMapAttr.get([expr])}
        if tile is not None:
            properties["tile"] = tile
        return IndexOp.create(operands=index.operands(), properties=properties, result_types=[result])


@irdl_op_definition
class GatherOp(_Access):
    """
    A table look-up: `%v = loop.gather %A[0, %j + d1] by %ix at 0 tile (d0 : 4, d1 : 16) : vector<4x16xf32>`.

    Each lane reads at the expressions, to which its lane of %ix (a vector of index) is added along dimension `at`.
    """

    name = "loop.gather"

    buffer = operand_def(MemRefType)
    by = operand_def()
    rest = var_operand_def(IndexType)
    map = prop_def(IndexMapAttr)
    at = prop_def(IntegerAttr)
    tile = prop_def(DenseArrayBase)
    result = result_def()

    @staticmethod
    def make(
        buffer: SSAValue,
        by: SSAValue,
        at: int,
        exprs: Sequence[Index],
        operands: Sequence[SSAValue],
        tile: Sequence[int],
    ) -> GatherOp:
        """A gather whose result has the axes that the expressions or `by` use."""
        t, v = buffer.type, by.type
        assert isinstance(t, MemRefType)
        assert isinstance(v, VectorType)
        shape = [max(a, b) for a, b in zip(tile_shape(exprs, tile), v.get_shape(), strict=True)]
        all_exprs, dims = compact(exprs, operands)
        return GatherOp.create(
            operands=[buffer, by, *dims],
            properties={"map": IndexMapAttr(all_exprs), "at": IntegerAttr(at, i64), "tile": i64_array(tile)},
            result_types=[VectorType(t.element_type, shape)],
        )

    @property
    def indices(self) -> Sequence[SSAValue]:
        """The operands that the map numbers."""
        return self.operands[2:]

    def verify_(self) -> None:
        t, v = self.buffer.type, self.by.type
        assert isinstance(t, MemRefType)
        verify_access(self.map.data, None, self.indices, t.get_num_dims(), len(self.tile_sizes))
        if not isinstance(v, VectorType) or v.element_type != IndexType():
            raise VerifyException(f"expected a vector of index to gather by, but got {v}")
        if not 0 <= self.at.value.data < t.get_num_dims():
            raise VerifyException(f"expected a dimension below {t.get_num_dims()}, but got {self.at.value.data}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.buffer)
        with printer.in_square_brackets():
            print_exprs(printer, self.map.data, self.indices)
        printer.print_string(" by ")
        printer.print_operand(self.by)
        printer.print_string(f" at {self.at.value.data}")
        self._print_tile(printer)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> GatherOp:
        buffer = parser.parse_operand()
        index = IndexParser(parser)
        exprs = index.list()
        parser.parse_keyword("by")
        by = parser.parse_operand()
        parser.parse_keyword("at")
        at = parser.parse_integer(allow_boolean=False)
        tile = cls._parse_tile(parser)
        if tile is None:
            parser.raise_error("expected the tile of the gather")
        parser.parse_punctuation(":")
        return GatherOp.create(
            operands=[buffer, by, *index.operands()],
            properties={"map": IndexMapAttr.get(exprs), "at": IntegerAttr(at, i64), "tile": tile},
            result_types=[parser.parse_type()],
        )


# --- values ------------------------------------------------------------------------------------------------------


def shape_of(t: Attribute) -> tuple[int, ...]:
    """The shape of a vector type, () of a scalar."""
    return tuple(t.get_shape()) if isinstance(t, VectorType) else ()


def element_of(t: Attribute) -> Attribute:
    """The element type of a vector type, or the scalar type itself."""
    return t.element_type if isinstance(t, VectorType) else t


def with_element(t: Attribute, element: Attribute) -> Attribute:
    """The same shape with another element type."""
    return VectorType(element, list(t.get_shape())) if isinstance(t, VectorType) else element


def broadcasts_to(source: Attribute, result: Attribute) -> bool:
    """Whether a scalar or a vector with axes of size 1 stretches to the result's shape."""
    s, r = shape_of(source), shape_of(result)
    if element_of(source) != element_of(result):
        return False
    return not s or (len(s) == len(r) and all(a in (1, b) for a, b in zip(s, r, strict=True)))


@irdl_op_definition
class FmaOp(IRDLOperation):
    """Fused multiply-add, a * b + c; axes of size 1 in a and b are broadcast: `%n = loop.fma %a, %b, %c : f32`."""

    name = "loop.fma"
    a = operand_def()
    b = operand_def()
    c = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    @staticmethod
    def make(a: SSAValue, b: SSAValue, c: SSAValue) -> FmaOp:
        """a * b + c, of c's type."""
        return FmaOp.create(operands=[a, b, c], result_types=[c.type])

    def verify_(self) -> None:
        if self.c.type != self.result.type:
            raise VerifyException(f"expected an addend of type {self.result.type}, but got {self.c.type}")
        for operand in (self.a, self.b):
            if not broadcasts_to(operand.type, self.result.type):
                raise VerifyException(
                    f"expected a factor that broadcasts to {self.result.type}, but got {operand.type}"
                )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_string(" : ")
        printer.print_list(self.operands, lambda v: printer.print_attribute(v.type))

    @classmethod
    def parse(cls, parser: Parser) -> FmaOp:
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        values = parser.resolve_operands(names, types, parser.pos)
        return FmaOp.create(operands=values, result_types=types[2:3])


@irdl_op_definition
class BroadcastOp(IRDLOperation):
    """A scalar, or a vector's axes of size 1, stretched: `loop.broadcast %v : f32 to vector<4x16xf32>`."""

    name = "loop.broadcast"
    value = operand_def()
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `to` type($result)"

    @staticmethod
    def make(value: SSAValue, type: Attribute) -> BroadcastOp:
        """The value stretched to a vector type."""
        return BroadcastOp.create(operands=[value], result_types=[type])

    def verify_(self) -> None:
        if not broadcasts_to(self.value.type, self.result.type):
            raise VerifyException(f"expected a value that broadcasts to {self.result.type}, but got {self.value.type}")


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """Combine a tile's axes, which keep size 1: `loop.reduce sum %v axes [1] : vector<4x16xf32> to vector<4x1xf32>`."""

    name = "loop.reduce"
    value = operand_def(VectorType)
    combiner = prop_def(StringAttr)
    axes = prop_def(DenseArrayBase)
    result = result_def(VectorType)
    traits = traits_def(Pure())

    @staticmethod
    def make(combiner: str, value: SSAValue, axes: Sequence[int]) -> ReduceOp:
        """The value with these axes combined."""
        t = value.type
        assert isinstance(t, VectorType)
        shape = [1 if k in axes else n for k, n in enumerate(t.get_shape())]
        return ReduceOp.create(
            operands=[value],
            properties={"combiner": StringAttr(combiner), "axes": i64_array(axes)},
            result_types=[VectorType(t.element_type, shape)],
        )

    def verify_(self) -> None:
        if self.combiner.data not in COMBINERS:
            raise VerifyException(f"expected a combiner of {', '.join(COMBINERS)}, but got '{self.combiner.data}'")
        axes = self.axes.get_values()
        shape = [1 if k in axes else n for k, n in enumerate(shape_of(self.value.type))]
        expected = VectorType(element_of(self.value.type), shape)
        if self.result.type != expected:
            raise VerifyException(f"expected a result of type {expected}, but got {self.result.type}")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.combiner.data} ")
        printer.print_operand(self.value)
        printer.print_string(f" axes {list(self.axes.get_values())} : ")
        printer.print_attribute(self.value.type)
        printer.print_string(" to ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> ReduceOp:
        combiner = parser.parse_identifier("a combiner")
        name = parser.parse_unresolved_operand()
        parser.parse_keyword("axes")
        axes = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        parser.parse_punctuation(":")
        value = parser.resolve_operand(name, parser.parse_type())
        parser.parse_keyword("to")
        return ReduceOp.create(
            operands=[value],
            properties={"combiner": StringAttr(combiner), "axes": i64_array(axes)},
            result_types=[parser.parse_type()],
        )


@irdl_op_definition
class CompareOp(IRDLOperation):
    """Compare lane by lane: `%m = loop.compare olt %a, %b : vector<16xf32>`, a vector of i1."""

    name = "loop.compare"
    predicate = prop_def(StringAttr)
    a = operand_def()
    b = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    @staticmethod
    def make(predicate: str, a: SSAValue, b: SSAValue) -> CompareOp:
        """The comparison of two values of one type."""
        return CompareOp.create(
            operands=[a, b],
            properties={"predicate": StringAttr(predicate)},
            result_types=[with_element(a.type, i1)],
        )

    def verify_(self) -> None:
        if self.predicate.data not in COMPARES:
            raise VerifyException(f"expected a predicate of {', '.join(COMPARES)}, but got '{self.predicate.data}'")
        if self.a.type != self.b.type:
            raise VerifyException(f"expected operands of one type, but got {self.a.type} and {self.b.type}")
        if self.result.type != with_element(self.a.type, i1):
            raise VerifyException(f"expected a result of type {with_element(self.a.type, i1)}")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.predicate.data} ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_string(" : ")
        printer.print_attribute(self.a.type)

    @classmethod
    def parse(cls, parser: Parser) -> CompareOp:
        predicate = parser.parse_identifier("a predicate")
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_punctuation(":")
        t = parser.parse_type()
        a, b = (parser.resolve_operand(n, t) for n in names)
        return CompareOp.make(predicate, a, b)


@irdl_op_definition
class SelectOp(IRDLOperation):
    """Choose lane by lane: `%v = loop.select %m, %a, %b : vector<16xi1>, vector<16xf32>`."""

    name = "loop.select"
    condition = operand_def()
    a = operand_def()
    b = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    @staticmethod
    def make(condition: SSAValue, a: SSAValue, b: SSAValue) -> SelectOp:
        """a where the condition holds, else b."""
        return SelectOp.create(operands=[condition, a, b], result_types=[a.type])

    def verify_(self) -> None:
        if not self.a.type == self.b.type == self.result.type:
            raise VerifyException(f"expected operands of one type, but got {self.a.type} and {self.b.type}")
        if self.condition.type not in (i1, with_element(self.a.type, i1)):
            raise VerifyException(
                f"expected a condition of type {with_element(self.a.type, i1)}, but got {self.condition.type}"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_string(" : ")
        printer.print_list([self.condition, self.a], lambda v: printer.print_attribute(v.type))

    @classmethod
    def parse(cls, parser: Parser) -> SelectOp:
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        if len(names) != 3 or len(types) != 2:
            parser.raise_error("expected three operands and the types of the condition and of the values")
        c, a, b = (parser.resolve_operand(n, t) for n, t in zip(names, (types[0], types[1], types[1]), strict=True))
        return SelectOp.make(c, a, b)


@irdl_op_definition
class CastOp(IRDLOperation):
    """Convert lane by lane: `%f = loop.cast sitofp %v : vector<16xi32> to vector<16xf32>`."""

    name = "loop.cast"
    kind = prop_def(StringAttr)
    value = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    @staticmethod
    def make(kind: str, value: SSAValue, element: Attribute) -> CastOp:
        """The value with another element type."""
        return CastOp.create(
            operands=[value],
            properties={"kind": StringAttr(kind)},
            result_types=[with_element(value.type, element)],
        )

    def verify_(self) -> None:
        if self.kind.data not in CASTS:
            raise VerifyException(f"expected a cast of {', '.join(CASTS)}, but got '{self.kind.data}'")
        if shape_of(self.value.type) != shape_of(self.result.type):
            raise VerifyException(f"expected one shape, but got {self.value.type} and {self.result.type}")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.kind.data} ")
        printer.print_operand(self.value)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)
        printer.print_string(" to ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> CastOp:
        kind = parser.parse_identifier("a cast")
        name = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        value = parser.resolve_operand(name, parser.parse_type())
        parser.parse_keyword("to")
        return CastOp.create(
            operands=[value], properties={"kind": StringAttr(kind)}, result_types=[parser.parse_type()]
        )


Loop = Dialect(
    "loop",
    [
        FuncOp,
        YieldOp,
        ForOp,
        BlockOp,
        AllocOp,
        LoadOp,
        StoreOp,
        IndexOp,
        GatherOp,
        FmaOp,
        BroadcastOp,
        ReduceOp,
        CompareOp,
        SelectOp,
        CastOp,
    ],
    [],
)
