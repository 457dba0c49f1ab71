"""The stages of a kernel and their reads: te.compute and te.read."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, StringAttr, TensorType, i64
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
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
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.access import (
    IndexParser,
    MaskedReadOp,
    parse_access,
    print_access,
    print_axes,
    verify_access,
)
from mlc.dialects.combiner import COMBINERS, PAIR_COMBINERS
from mlc.dialects.index import UNBOUNDED, Index, IndexMapAttr, Range, axis_range, const, size_of
from mlc.dialects.syntax.recipes.probe import VerifiedAround, is_probe
from mlc.dialects.te.elements import YieldOp
from mlc.dialects.te.reducer import OWN, CustomReducer
from mlc.dialects.text import TextOp


@irdl_op_definition
class ComputeOp(TextOp):
    """
    One stage: a tensor given element by element, or a reduction.

    `%y = te.compute "sum" (%i : 4) reduce (%k : 8) sum { ... te.yield %v : f32 } : tensor<4xf32>`
    Spatial axes index the result; reduction axes are combined by `sum`, `prod`, `max`, `min`, or, for two yielded
    values (value, index), by `argmax`, `argmin`. A reducer of one's own, of any number of values, stands in a region:
    `reduce (%k : 8) combine "smaller" (%a : f32, %b : f32) from (1.0e+09 : f32) { ... te.yield %c : f32 } { ... }`
    Its arguments are the values so far, then the new ones; it must be commutative and associative, and `from` gives
    its neutral elements.
    """

    name = "te.compute"

    stage = prop_def(StringAttr)
    extents = prop_def(IndexMapAttr)
    spatial = prop_def(IntegerAttr)
    combiner = opt_prop_def(StringAttr)
    identity = opt_prop_def(ArrayAttr)
    symbols = var_operand_def(IndexType)
    results_ = var_result_def(TensorType)
    body = region_def("single_block")
    combine = opt_region_def("single_block")

    traits = traits_def(Pure())

    @staticmethod
    def make(
        stage: str,
        spatial: Sequence[int | Index],
        reduce: Sequence[int | Index],
        combiner: str | CustomReducer | None,
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
        regions = [body]
        if isinstance(combiner, CustomReducer):
            properties["identity"] = ArrayAttr(combiner.identity)
            regions.append(combiner.region)
            combiner = OWN + combiner.name
        if combiner is not None:
            properties["combiner"] = StringAttr(combiner)
        return ComputeOp.create(operands=symbols, properties=properties, result_types=result_types, regions=regions)

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
    def ranges(self) -> list[Range | None]:
        """The values of each axis, as far as they are known; the first axis of a stage in a scan skips the init."""
        found = [None if n in (0, UNBOUNDED) else axis_range(n) for n in self.static_extents]
        if found and found[0] is not None:
            found[0] = (self.first_step, found[0][1]) if self.first_step <= found[0][1] else None
        return found

    @property
    def first_step(self) -> int:
        """The first value of the first axis: 0, or that of a scan around the stage."""
        return getattr(self.parent_op(), "first_step", 0)

    @property
    def reducer(self) -> CustomReducer | None:
        """The reducer in the stage's own region; None without a reduction, and for a combiner that has a name."""
        if self.combine is None or self.combiner is None or self.identity is None:
            return None
        return CustomReducer(self.combiner.data.removeprefix(OWN), self.combine, tuple(self.identity.data))

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
        if (self.combine is None) != (self.identity is None):
            raise VerifyException("expected neutral elements exactly where the reducer has a region")
        self._verify_combiner()
        self._verify_results(block.last_op)

    def _verify_combiner(self) -> None:
        if self.combiner is None:
            return
        name = self.combiner.data
        if (reducer := self.reducer) is not None:
            if not name.startswith(OWN):
                raise VerifyException(f"expected a combiner that begins with '{OWN}' of a reducer, but got '{name}'")
            reducer.verify([r.type for r in self.results_])
            return
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
            if (reducer := self.reducer) is not None:
                reducer.print(printer)
            else:
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
            combiner = CustomReducer.parse(parser) or parser.parse_identifier(
                " as the combiner: sum, prod, max, min, argmax, argmin or combine"
            )
        elif (word := parser.parse_optional_identifier()) is not None:
            parser.raise_error(f"expected the axes that '{word}' reduces, `reduce (%k : 8) {word}`, before it", start)
        body = parser.parse_region([a.argument for a in (*spatial, *reduce)])
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        extents = [a.extent for a in spatial], [a.extent for a in reduce]
        return ComputeOp.make(stage, *extents, combiner, types, body, index.operands())


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

    @property
    def tensor_shape(self) -> Sequence[int]:
        """The sizes of the tensor that is read."""
        assert isinstance(self.tensor.type, TensorType)
        return self.tensor.type.get_shape()

    def verify_around(self) -> None:
        """Affine indices over the axes of the stage alone lie inside of the tensor, as far as sizes are known."""
        stage = self.parent_op()
        if self.mask is not None or not isinstance(stage, ComputeOp) or len(stage.axes) != len(stage.static_extents):
            return
        spans, extents = stage.ranges, stage.static_extents
        axes = {axis: number for number, axis in enumerate(stage.axes)}
        ranges, is_open = dict[int, Range](), set[int]()
        for k, operand in enumerate(self.indices):
            if (number := axes.get(operand)) is None:
                return
            if (span := spans[number]) is None:
                if extents[number] != UNBOUNDED:
                    return  # an axis without elements
                is_open.add(k)
                span = (0 if number else stage.first_step, UNBOUNDED)
            ranges[k] = span
        for axis, (expr, size) in enumerate(zip(self.map.data, self.tensor_shape, strict=True)):
            if not expr.is_affine:
                continue
            low, high = expr.bounds(ranges)
            where = f"on axis {axis} of {self.tensor.type}"
            if size >= 0 and not expr.dims() & is_open and (low < 0 or high >= size):
                span = f"but it spans {low}..{high}; give it a mask"
                raise VerifyException(f"expected an index in 0..{size - 1} {where}, {span}")
            if low < 0 and all(expr.coefficient(d) > 0 for d in expr.dims()):
                raise VerifyException(
                    f"expected an index of at least 0 {where}, but it begins at {low}; give it a mask"
                )

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
