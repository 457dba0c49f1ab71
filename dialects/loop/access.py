"""Buffers and their accesses: alloc, load, store, gather, and index expressions as values."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    VectorType,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.access import (
    IndexParser,
    MaskedReadOp,
    i64_array,
    parse_access,
    parse_tile,
    print_access,
    print_exprs,
    print_tile,
    verify_access,
)
from mlc.dialects.constants import integers
from mlc.dialects.index import Index, IndexMapAttr, compact, const
from mlc.dialects.loop.bounds import verify_bounds
from mlc.dialects.loop.values import tile_type
from mlc.dialects.syntax.recipes.probe import VerifiedAround, is_probe
from mlc.dialects.text import TextOp, parse_defined
from mlc.dialects.value_names import value_name

SCOPES = ("local", "shared", "global")


def buffer_type(buffer: SSAValue) -> MemRefType[Attribute]:
    """The type of a buffer."""
    t = buffer.type
    assert isinstance(t, MemRefType)
    return t


@irdl_op_definition
class AllocOp(IRDLOperation):
    """
    A buffer: `%b = loop.alloc "local" : memref<4x16xf32>`;
    `%p = loop.alloc "shared" (%w * 8 + 2) : memref<3x?xf32>`.

    Sizes that the type leaves as `?` are expressions of the kernel's symbols. Scope "local" is private to a thread
    (registers once promoted, else scratch); "shared" is the workspace of the kernel, seen by all threads.
    """

    name = "loop.alloc"
    args = var_operand_def(IndexType)
    scope = prop_def(StringAttr)
    sizes = opt_prop_def(IndexMapAttr)
    result = result_def(MemRefType)

    @staticmethod
    def make(
        type: MemRefType,
        scope: str = "shared",
        name: str | None = None,
        sizes: Sequence[Index] = (),
        operands: Sequence[SSAValue] = (),
    ) -> AllocOp:
        """A buffer of this type and scope; `sizes`, over `operands`, are those of its `?`."""
        exprs, dims = compact(sizes, operands)
        properties: dict[str, Attribute] = {"scope": StringAttr(scope)}
        if exprs:
            properties["sizes"] = IndexMapAttr.get(exprs)
        op = AllocOp.create(operands=dims, properties=properties, result_types=[type])
        op.result.name_hint = value_name(name)
        return op

    @property
    def shape(self) -> tuple[Index, ...]:
        """The sizes of all axes, over `args`."""
        symbolic = iter(self.sizes.data if self.sizes is not None else ())
        return tuple(next(symbolic) if n < 0 else const(n) for n in self.result.type.get_shape())

    def verify_(self) -> None:
        given = len(self.sizes.data) if self.sizes is not None else 0
        wanted = sum(size < 0 for size in self.result.type.get_shape())
        if given != wanted:
            raise VerifyException(f"expected {wanted} sizes, one for each ? of the type, but got {given}")
        if self.scope.data not in SCOPES:
            raise VerifyException(f"expected a scope of {', '.join(SCOPES)}, but got '{self.scope.data}'")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.scope.data)
        if self.sizes is not None:
            printer.print_string(" (")
            print_exprs(printer, self.sizes.data, self.args)
            printer.print_string(")")
        if self.attributes:
            printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> AllocOp:
        scope = parser.parse_str_literal(" as the scope")
        index = IndexParser(parser)
        sizes = index.optional_list()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        type_ = parser.parse_type()
        if not isinstance(type_, MemRefType):
            parser.raise_error(f"expected a memref type, but got {type_}", position, parser.pos)
        op = AllocOp.make(type_, scope, sizes=sizes, operands=index.operands())
        op.attributes |= attributes
        return op


def tile_shape(exprs: Sequence[Index], tile: Sequence[int]) -> tuple[int, ...]:
    """The shape of a tile access: an axis that no expression uses has size 1."""
    return tuple(n if any(e.uses(-1 - k) for e in exprs) else 1 for k, n in enumerate(tile))


class _Access(TextOp):
    """The base of loads, stores and gathers: buffer, map, mask, tile."""

    @property
    def tile_sizes(self) -> tuple[int, ...]:
        """The sizes of the tile axes; () for a scalar access."""
        return integers(self.properties.get("tile")) or ()

    @property
    def mask_exprs(self) -> tuple[Index, ...]:
        """The mask's expressions."""
        mask = self.properties.get("mask")
        return mask.data if isinstance(mask, IndexMapAttr) else ()

    def _verify_value(self, buffer: SSAValue, value: Attribute, exprs: Sequence[Index]) -> None:
        t = buffer.type
        assert isinstance(t, MemRefType)
        tile = self.tile_sizes
        expected: Attribute = tile_type(t.element_type, tile_shape(exprs, tile)) if tile else t.element_type
        if value != expected:
            raise VerifyException(f"expected a value of type {expected} for this access, but got {value}")


class _BoundedAccess(_Access, VerifiedAround):
    """The base of loads and stores."""

    def verify_around(self) -> None:
        """An access without a mask touches no element that is certainly outside of the buffer."""
        assert isinstance(self, LoadOp | StoreOp)
        if self.mask is None:
            verify_bounds(self, buffer_type(self.buffer), self.map.data, self.indices, self.tile_sizes)


def _split_map(
    exprs: Sequence[Index], mask: Sequence[Index], tile: Sequence[int], operands: Sequence[SSAValue]
) -> tuple[dict[str, Attribute], list[SSAValue]]:
    """The properties map, mask and tile of an access, and the index operands that occur in them, each once."""
    compacted, used = compact([*exprs, *mask], operands)
    properties: dict[str, Attribute] = {"map": IndexMapAttr(compacted[: len(exprs)])}
    if mask:
        properties["mask"] = IndexMapAttr(compacted[len(exprs) :])
    if tile:
        properties["tile"] = i64_array(tile)
    return properties, used


@irdl_op_definition
class LoadOp(_BoundedAccess, MaskedReadOp):
    """
    Read an element or a tile: `%l = loop.load %A[%i + d0, %k] tile (d0 : 12, d1 : 32) : vector<12x1xf32>`.

    Operands: the buffer, the index operands of map and mask, and last the else value where there is a mask.
    The else value has the type of the result.
    """

    name = "loop.load"

    buffer = operand_def(MemRefType)
    rest = var_operand_def()
    tile = opt_prop_def(DenseArrayBase.constr(i64))

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
        properties, dims = _split_map(exprs, mask, tile, operands)
        if mask:
            assert otherwise is not None
            dims.append(otherwise)
        result = tile_type(t.element_type, tuple(tile_shape([*exprs, *mask], tile))) if tile else t.element_type
        return LoadOp.create(operands=[buffer, *dims], properties=properties, result_types=[result])

    def verify_(self) -> None:
        t = self.buffer.type
        assert isinstance(t, MemRefType)
        verify_access(self.map.data, self.mask_exprs, self.indices, t.get_num_dims(), len(self.tile_sizes))
        self._verify_value(self.buffer, self.result.type, [*self.map.data, *self.mask_exprs])
        self.verify_otherwise()
        if not is_probe(self):
            self.verify_around()

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_access(printer, self.buffer, self.map, self.indices, self.mask, self.otherwise)
        print_tile(printer, self.tile_sizes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def read(cls, parser: Parser) -> LoadOp:
        access = parse_access(parser)
        properties = access.properties | parse_tile(parser)
        parser.parse_punctuation(":")
        result = parser.parse_type()
        return LoadOp.create(operands=access.all_operands(parser, result), properties=properties, result_types=[result])


@irdl_op_definition
class StoreOp(_BoundedAccess):
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
    tile = opt_prop_def(DenseArrayBase.constr(i64))

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
        properties, dims = _split_map(exprs, mask, tile, operands)
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
        if not is_probe(self):
            self.verify_around()

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.value)
        printer.print_string(", ")
        print_access(printer, self.buffer, self.map, self.indices, self.mask)
        print_tile(printer, self.tile_sizes)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)

    @classmethod
    def read(cls, parser: Parser) -> StoreOp:
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        access = parse_access(parser, with_else=False)
        properties = access.properties | parse_tile(parser)
        parser.parse_punctuation(":")
        v = parser.resolve_operand(value, parser.parse_type())
        return StoreOp.create(operands=[v, *access.operands], properties=properties)


@irdl_op_definition
class IndexOp(_Access):
    """An index expression as a value: `%v = loop.index %i * 2 + d0 tile (d0 : 16) : vector<16xindex>`."""

    name = "loop.index"

    args = var_operand_def(IndexType)
    map = prop_def(IndexMapAttr)
    tile = opt_prop_def(DenseArrayBase.constr(i64))
    result = result_def()
    traits = traits_def(Pure())

    @staticmethod
    def make(expr: Index, operands: Sequence[SSAValue], tile: Sequence[int] = ()) -> IndexOp:
        """The value of an expression over `operands`."""
        properties, dims = _split_map([expr], (), tile, operands)
        result = tile_type(IndexType(), tuple(tile_shape([expr], tile))) if tile else IndexType()
        return IndexOp.create(operands=dims, properties=properties, result_types=[result])

    def verify_(self) -> None:
        verify_access(self.map.data, None, self.args, 1, len(self.tile_sizes))
        expected: Attribute = IndexType()
        if self.tile is not None:
            expected = VectorType(IndexType(), tile_shape(self.map.data, self.tile_sizes))
        if self.result.type != expected:
            raise VerifyException(f"expected a result of type {expected}, but got {self.result.type}")

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_exprs(printer, self.map.data, self.args)
        print_tile(printer, self.tile_sizes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def read(cls, parser: Parser) -> IndexOp:
        index = IndexParser(parser)
        properties: dict[str, Attribute] = {"map": IndexMapAttr.get([index.expr()])}
        properties |= parse_tile(parser)
        parser.parse_punctuation(":")
        result = parser.parse_type()
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
    tile = prop_def(DenseArrayBase.constr(i64))
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
        """The index operands of the map."""
        return self.operands[2:]

    def verify_(self) -> None:
        t, v = self.buffer.type, self.by.type
        assert isinstance(t, MemRefType)
        verify_access(self.map.data, None, self.indices, t.get_num_dims(), len(self.tile_sizes))
        if not isinstance(v, VectorType) or v.element_type != IndexType():
            raise VerifyException(f"expected a vector of index to gather by, but got {v}")
        if not 0 <= self.at.value.data < t.get_num_dims():
            raise VerifyException(f"expected a dimension below {t.get_num_dims()}, but got {self.at.value.data}")
        tile, by = tile_shape(self.map.data, self.tile_sizes), tuple(v.get_shape())
        if len(tile) != len(by) or any(a != b and 1 not in (a, b) for a, b in zip(tile, by, strict=True)):
            raise VerifyException(f"expected indices that broadcast with the tile {tile}, but got {v}")
        expected = VectorType(t.element_type, [max(a, b) for a, b in zip(tile, by, strict=True)])
        if self.result.type != expected:
            raise VerifyException(f"expected a result of type {expected}, but got {self.result.type}")

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_access(printer, self.buffer, self.map, self.indices)
        printer.print_string(" by ")
        printer.print_operand(self.by)
        printer.print_string(f" at {self.at.value.data}")
        print_tile(printer, self.tile_sizes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def read(cls, parser: Parser) -> GatherOp:
        access = parse_access(parser, with_mask=False)
        parser.parse_keyword("by")
        by = parse_defined(parser)
        parser.parse_keyword("at")
        at = parser.parse_integer(allow_boolean=False)
        tile = parse_tile(parser)
        if not tile:
            parser.raise_error("expected the tile of the gather")
        parser.parse_punctuation(":")
        return GatherOp.create(
            operands=[access.operands[0], by, *access.operands[1:]],
            properties={**access.properties, "at": IntegerAttr(at, i64), **tile},
            result_types=[parser.parse_type()],
        )


AccessOp = LoadOp | StoreOp | GatherOp
"""The ops that touch memory."""
