"""Sources of values (weights, constants, fills), fused regions and kernel calls."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    StringAttr,
    SymbolRefAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    ConstantLike,
    IsolatedFromAbove,
    IsTerminator,
    Pure,
    RecursiveMemoryEffect,
    SingleBlockImplicitTerminator,
)
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.base import ELEMENTWISE, OPAQUE, GraphOp, Location, Sample, name_location
from mlc.dialects.graph.dims import DimsAttr
from mlc.dialects.graph.op_attributes import Attr, Float, Int, Str
from mlc.dialects.graph.types import (
    Array,
    Dim,
    DTypeLike,
    Tensor,
    axis_of,
    check_value,
    element_type,
    numpy_dtype,
    shape_of,
    static_shape,
    tensor,
    with_symbols,
)

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer


class SourceOp(GraphOp):
    """The base of ops without operands, whose result type is given."""

    kind = OPAQUE
    arity = (0, 0)
    result_given = True

    def infer_types(self) -> list[Tensor]:
        if len(self.results) != 1 or not isinstance(self.results[0].type, TensorType):
            raise VerifyException(f"expected one result, a tensor, but got {', '.join(map(str, self.result_types))}")
        shape_of(self.type)
        return [self.type]


class ParamOp(SourceOp):
    """An entry of the model's weight store: `%w = graph.param "fc.weight" : tensor<256x784xf32>`."""

    name = "graph.param"
    entry = Str()

    def print(self, printer: Printer) -> None:
        from mlc.dialects.graph.syntax import print_attributes

        printer.print_string(f" {type(self).declared['entry'].text(self.entry)}")
        print_attributes(self, printer, skip=("entry",))
        printer.print_string(" : ")
        printer.print_attribute(self.type)

    @classmethod
    def parse(cls, parser: Parser) -> ParamOp:
        from mlc.dialects.graph.syntax import parse_attributes

        entry = parser.parse_str_literal(" as the name of a weight")
        properties: dict[str, Attribute] = {"entry": StringAttr(entry)}
        attributes = parse_attributes(cls, parser, properties)
        parser.parse_punctuation(":", " before the type of the weight")
        return cls.create(properties=properties, attributes=attributes, result_types=[parser.parse_type()])


class ConstantOp(SourceOp):
    """A small constant: `%0 = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>`."""

    name = "graph.constant"
    value = Attr()
    traits = traits_def(Pure(), ConstantLike())
    MAX_ELEMENTS: ClassVar[int] = 64

    def infer_types(self) -> list[Tensor]:
        value = self.value
        if not isinstance(value, DenseIntOrFPElementsAttr) or not isinstance(value.type, TensorType):
            raise VerifyException(f"expected a value like dense<0.0> : tensor<2xf32>, but got {value}")
        return [value.type]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        return (dense_array(self.value),)

    def array(self) -> Any:
        """The value as a numpy array."""
        return dense_array(self.value)

    @classmethod
    def make(  # pyright: ignore[reportIncompatibleMethodOverride] - a constant has a value, and no operands
        cls,
        value: Array | complex | Dim | Sequence[Any] | DenseIntOrFPElementsAttr,
        *,
        dtype: DTypeLike | None = None,
        location: Location = None,
    ) -> ConstantOp:
        """A constant of a numpy array, a number, or a dense attribute."""
        attribute = value if isinstance(value, DenseIntOrFPElementsAttr) else dense_attribute(value, dtype)
        return cls.create(
            properties={"value": attribute},
            result_types=[attribute.type],
            location=name_location(location),
        )

    def print(self, printer: Printer) -> None:
        from mlc.dialects.graph.syntax import print_attributes

        print_attributes(self, printer, skip=("value",))
        printer.print_string(" ")
        printer.print_attribute(self.value)

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        from mlc.dialects.graph.syntax import parse_attributes

        properties: dict[str, Attribute] = {}
        attributes = parse_attributes(cls, parser, properties)
        position = parser.pos
        value = None if parser.parse_optional_number() is not None else parser.parse_attribute()
        if not isinstance(value, DenseIntOrFPElementsAttr):
            parser.raise_error("expected a value like dense<0.0> : tensor<2xf32>", position)
        return cls.create(properties={"value": value}, attributes=attributes, result_types=[value.type])

    @classmethod
    def samples(cls) -> list[Sample]:
        value = DenseIntOrFPElementsAttr.from_list(tensor((3,)), [1.0, 2.0, -3.0])
        return [Sample((), {"value": value}, result=tensor((3,)))]


def dense_array(value: Attribute) -> Array:
    """The numpy array of a dense attribute."""
    import numpy as np

    assert isinstance(value, DenseIntOrFPElementsAttr)
    shape, dtype = static_shape(value.type), numpy_dtype(value.type.element_type)
    if dtype == np.bool_ or dtype.name == "bfloat16":
        return np.array(value.get_values()).astype(dtype).reshape(shape)
    return np.frombuffer(value.data.data, dtype).reshape(shape)


def dense_attribute(
    value: Array | complex | Dim | Sequence[Any], dtype: DTypeLike | None = None
) -> DenseIntOrFPElementsAttr:
    """The dense attribute of a numpy array or a number."""
    import numpy as np
    from xdsl.dialects.builtin import BytesAttr

    array = np.asarray(value, None if dtype is None else numpy_dtype(element_type(dtype)))
    if dtype is None and isinstance(value, float):
        array = array.astype(np.float32)
    type = tensor(array.shape, element_type(array.dtype))
    if array.dtype == np.bool_ or array.dtype.name == "bfloat16":
        return DenseIntOrFPElementsAttr.from_list(
            type, array.astype(np.float32 if array.dtype.name == "bfloat16" else int).ravel().tolist()
        )
    return DenseIntOrFPElementsAttr(type, BytesAttr(array.tobytes()))


class FullOp(SourceOp):
    """A tensor of one value: `%0 = graph.full {value = 0.5} : tensor<2x3xf32>`."""

    name = "graph.full"
    kind = ELEMENTWISE
    layout_rule = "elementwise"
    value = Float()

    def infer_types(self) -> list[Tensor]:
        (result,) = super().infer_types()
        check_value(self.value, result)
        return [result]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        return (np.full(static_shape(self.type), self.value),)

    @classmethod
    def make(  # pyright: ignore[reportIncompatibleMethodOverride] - a fill has a shape, and no operands
        cls, shape: Sequence[Dim], value: float, dtype: DTypeLike = "float32", *, location: Location = None
    ) -> Self:
        """A tensor of this shape, filled with `value`."""
        return super().make(result=tensor(shape, element_type(dtype)), value=value, location=location)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample((), {"value": 0.5}, result=tensor((2, 3))),
            Sample((), {"value": 3}, result=tensor((4,), "int32")),
        ]


class IotaOp(SourceOp):
    """Each element is its index along `axis`: `%0 = graph.iota {axis = 0} : tensor<4xi64>`."""

    name = "graph.iota"
    axis = Int(0)

    def infer_types(self) -> list[Tensor]:
        (result,) = super().infer_types()
        axis_of(self.axis, len(shape_of(result)))
        return [result]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        shape = static_shape(self.type)
        along = [-1 if axis == self.axis % len(shape) else 1 for axis in range(len(shape))]
        return (np.broadcast_to(np.arange(shape[self.axis]).reshape(along), shape),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((), {"axis": 1}, result=tensor((2, 5), "int64"))]


class BandOp(SourceOp):
    """
    One value on a band of diagonals of the last two axes, another outside.

    `%0 = graph.band {lower = -3, upper = 0, inside = 0.0, outside = -inf} : tensor<4x4xf32>` is the mask of causal
    attention: element [i, j] is `inside` where lower <= j - i <= upper.
    """

    name = "graph.band"
    lower = Int()
    upper = Int()
    inside = Float()
    outside = Float()

    def infer_types(self) -> list[Tensor]:
        (result,) = super().infer_types()
        shape = static_shape(result)
        if len(shape) < 2:
            raise VerifyException(f"expected a tensor of rank 2 or more, but got {result}")
        check_value(self.inside, result)
        check_value(self.outside, result)
        return [result]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        shape = static_shape(self.type)
        diagonal = np.arange(shape[-1]) - np.arange(shape[-2])[:, None]
        there = (self.lower <= diagonal) & (diagonal <= self.upper)
        return (np.broadcast_to(np.where(there, self.inside, self.outside), shape),)

    @classmethod
    def samples(cls) -> list[Sample]:
        causal = {"lower": -3, "upper": 0, "inside": 0.0, "outside": -1.0e9}
        return [
            Sample((), causal, result=tensor((4, 4))),
            Sample((), {"lower": -1, "upper": 2, "inside": 1.0, "outside": 0.0}, result=tensor((2, 3, 5), "bool")),
        ]


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The results of a region: `graph.yield %0 : tensor<4xf32>`."""

    name = "graph.yield"
    values = var_operand_def(TensorType)
    assembly_format = "attr-dict ($values^ `:` type($values))?"
    traits = traits_def(IsTerminator(), Pure())

    def __init__(self, *values: SSAValue | Operation):
        super().__init__(operands=[values])


@irdl_op_definition
class FusedOp(IRDLOperation):
    """
    Graph ops that become one kernel; the region is isolated: the values that it reads are operands.

    ```
    %1 = graph.fused "dense_relu" (%a = %x : tensor<1x4xf32>, %b = %w : tensor<2x4xf32>) -> tensor<1x2xf32> {
      ...
      graph.yield %r : tensor<1x2xf32>
    } {origins = ["fc1"]}
    ```
    """

    name = "graph.fused"
    inputs = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    label = prop_def(StringAttr, prop_name="name")
    origins = opt_prop_def(ArrayAttr[StringAttr])
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SingleBlockImplicitTerminator(YieldOp), RecursiveMemoryEffect())

    def __init__(
        self,
        inputs: Sequence[SSAValue | Operation],
        result_types: Sequence[Attribute],
        body: Region | None = None,
        name: str = "",
        origins: Sequence[str] | None = None,
    ):
        values = [SSAValue.get(value) for value in inputs]
        body = body or Region(Block(arg_types=[value.type for value in values]))
        properties: dict[str, Attribute | None] = {
            "name": StringAttr(name),
            "origins": None if origins is None else ArrayAttr([StringAttr(o) for o in origins]),
        }
        super().__init__(operands=[values], result_types=[result_types], properties=properties, regions=[body])

    def verify_(self) -> None:
        """Block arguments have the operands' types, and the terminator yields the result types."""
        block = self.body.block
        if tuple(block.arg_types) != tuple(self.operand_types):
            raise VerifyException(
                f"expected block arguments of types ({_types(self.operand_types)}), like the operands, "
                f"but got ({_types(block.arg_types)})"
            )
        last = block.last_op
        if not isinstance(last, YieldOp):
            raise VerifyException("expected a graph.yield at the end of the region")
        if tuple(last.operand_types) != tuple(self.result_types):
            raise VerifyException(
                f"expected graph.yield of ({_types(self.result_types)}), like the results, "
                f"but got ({_types(last.operand_types)})"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {Str().text(self.label.data)} (")

        def argument(pair: tuple[SSAValue, SSAValue]) -> None:
            printer.print_ssa_value(pair[0])
            printer.print_string(" = ")
            printer.print_operand(pair[1])
            printer.print_string(" : ")
            printer.print_attribute(pair[1].type)

        printer.print_list(list(zip(self.body.block.args, self.operands, strict=True)), argument)
        printer.print_string(") -> ")
        if len(self.results) == 1:
            printer.print_attribute(self.results[0].type)
        else:
            with printer.in_parens():
                printer.print_list(self.result_types, printer.print_attribute)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)
        origins = {} if self.origins is None else {"origins": self.origins}
        printer.print_op_attributes({**origins, **self.attributes})

    @classmethod
    def parse(cls, parser: Parser) -> FusedOp:
        label = parser.parse_str_literal(" as the name of the kernel")
        arguments: list[Any] = []
        operands: list[Any] = []

        def argument() -> None:
            name = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=", " after a block argument")
            operand = parser.parse_unresolved_operand()
            parser.parse_punctuation(":", " before the type of a block argument")
            type = parser.parse_type()
            arguments.append(name.resolve(type))
            operands.append(parser.resolve_operand(operand, type))

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
        parser.parse_punctuation("->")
        results = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        if results is None:
            results = [parser.parse_type()]
        region = parser.parse_region(arguments)
        attributes = dict(parser.parse_optional_attr_dict())
        properties: dict[str, Attribute] = {"name": StringAttr(label)}
        if "origins" in attributes:
            properties["origins"] = attributes.pop("origins")
        return cls.create(
            operands=operands, result_types=results, properties=properties, attributes=attributes, regions=[region]
        )


@irdl_op_definition
class CallOp(IRDLOperation):
    """
    A call of a kernel or function of the module.

    `%1 = graph.call @dense_relu(%x, %w) : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>`

    A kernel with symbols of its own, s0, s1, ..: the attribute `symbols` gives their sizes at the call, in order:
    `graph.call @exp(%x) {symbols = #graph.dims<[H floordiv 4]>} : (tensor<?xf32, #graph.dims<[H floordiv 4]>>) -> ..`
    """

    name = "graph.call"
    inputs = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    callee = prop_def(SymbolRefAttr)
    assembly_format = "$callee `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)"
    traits = traits_def(Pure())

    def __init__(self, callee: str, inputs: Sequence[SSAValue | Operation], result_types: Sequence[Attribute]):
        super().__init__(operands=[inputs], result_types=[result_types], properties={"callee": SymbolRefAttr(callee)})

    def verify_(self) -> None:
        """The call has the callee's type, if the module has the callee."""
        from xdsl.dialects.func import FuncOp

        from mlc.dialects.symbol_lookup import lookup_symbol

        callee = lookup_symbol(self, self.callee) if self.parent is not None else None
        if not isinstance(callee, FuncOp):  # an already lowered kernel: te.func, loop.func
            return
        inputs, outputs = callee.function_type.inputs.data, callee.function_type.outputs.data
        if sizes := bound_symbols(self):
            inputs, outputs = ([with_symbols(t, sizes) for t in types] for types in (inputs, outputs))
        if tuple(inputs) != tuple(self.operand_types) or tuple(outputs) != tuple(self.result_types):
            raise VerifyException(
                f"expected a call of type ({_types(inputs)}) -> ({_types(outputs)}), which {self.callee} has, "
                f"but got ({_types(self.operand_types)}) -> ({_types(self.result_types)})"
            )


def bound_symbols(call: Operation) -> dict[str, Dim]:
    """The sizes of a kernel's symbols s0, s1, .. at a call; empty if the kernel uses its caller's symbols."""
    given = call.attributes.get("symbols")
    values = given.data if isinstance(given, DimsAttr) else ()
    return {f"s{k}": value.evaluate({}) for k, value in enumerate(values)}


def _types(types: Sequence[Attribute]) -> str:
    return ", ".join(map(str, types))


OPS: list[type[GraphOp]] = [ParamOp, ConstantOp, FullOp, IotaOp, BandOp]
STRUCTURE: list[type[Operation]] = [YieldOp, FusedOp, CallOp]
