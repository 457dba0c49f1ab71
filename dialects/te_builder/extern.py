"""
`te.extern`: a stage whose values a loop body, a C function or a registered function computes.

    E = te.extern((64, 32), [A, B], te.c_call("cblas_sgemm", 101, 111, 111, 64, 32, 16, np.float32(1), A, 16, B, 32,
                                              np.float32(0), te.output(0), 32, libraries=["openblas"]))
    E = te.extern((64, 32), [A, B], te.call("my.gemm"))
    E = te.extern((64,), [A], lambda b, ins, outs: b.loop(0, 64, [], lambda i: b.store(b.load(ins[0], i), outs[0], i)))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, f32, f64, i32, i64
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects import loop
from mlc.dialects.external import Argument, Callee, SizeArgument
from mlc.dialects.graph.dims import Dim, DimExpr, basis
from mlc.dialects.graph.types import DTypeLike, Shape, element_type
from mlc.dialects.index import Index
from mlc.dialects.scalar import INDEX
from mlc.dialects.te_builder import builder
from mlc.dialects.te_builder.builder import Tensor
from mlc.dialects.te_builder.indices import StageBuilder, check_name
from mlc.dialects.te_builder.loop_body import LoopBodyBuilder
from mlc.dialects.te_extern import ExternOp, buffer_types, empty_body
from mlc.dialects.value_names import value_name
from mlc.support.errors import UserError

LoopBody = Callable[[LoopBodyBuilder, Sequence[SSAValue], Sequence[SSAValue]], object]
"""Writes the loops of a stage with a builder: `body(b, inputs, outputs)`, the buffers."""


@dataclass(frozen=True)
class Output:
    """An output of te.extern, as an argument of a C function."""

    index: int


@dataclass(frozen=True)
class CSize:
    """A size that is known when the kernel runs, as an argument of a C function of a type: i32 or i64."""

    size: DimExpr
    type: IntegerType


@dataclass(frozen=True)
class FunctionCall:
    """A call that `te.c_call` or `te.call` describes: the callee without arguments, and the arguments."""

    callee: Callee
    arguments: tuple[object, ...] = ()


def output(index: int = 0) -> Output:
    """The k-th output of the te.extern around it, as an argument of te.c_call."""
    return Output(index)


def c_size(size: Dim, dtype: str = "int64") -> CSize | np.generic[Any]:
    """
    A size, or arithmetic of sizes, as an argument of te.c_call of the type int32 or int64; a plain `n` there is an int.

    Raises UserError where the declared ranges of its te.var allow values that the type cannot hold.
    """
    if dtype not in ("int32", "int64"):
        raise UserError(f"expected a size of dtype int32 or int64, but got {dtype!r}")
    if isinstance(size, int):
        return np.dtype(dtype).type(size)
    if not isinstance(size, DimExpr):  # pyright: ignore[reportUnnecessaryIsInstance] - from users
        raise UserError(f"expected a te.var, arithmetic of them or an int as size, but got {size!r:.60}")
    low, high = size.bounds()
    if dtype == "int32" and not -(2**31) <= low <= high < 2**31:
        raise UserError(
            f"expected a size that C's int holds, but {size} has no such bound; give its te.var an upper one, "
            "or pass te.c_size(size) for an int64_t"
        )
    return CSize(size, i32 if dtype == "int32" else i64)


def call(name: str) -> FunctionCall:
    """A call of the function that is registered by this name, `fn(*inputs, *outputs)` (mlc.register_func)."""
    check_name(name)
    return FunctionCall(_checked(Callee("registered", name)))


def c_call(symbol: str, *arguments: object, libraries: Sequence[str] = (), status: bool = False) -> FunctionCall:
    """
    A call of a C function by its symbol, linked with `libraries` (`"openblas"`, or the path of a library).

    An argument is a tensor among the inputs, `te.output(k)`, a number, or a size: int and te.var are C's int, float
    is double, a numpy scalar what its type says (np.float32(1), np.int64(8)), te.c_size(n) int64_t. Without arguments
    the function gets pointers to all inputs, then to all outputs. With `status` the function returns an int, and one
    other than 0 stops the program.
    """
    if isinstance(libraries, str):
        raise UserError(f'expected libraries as a list of names, but got "{libraries}"')
    return FunctionCall(_checked(Callee("c", symbol, (), tuple(libraries), status)), arguments)


def _checked(callee: Callee) -> Callee:
    try:
        callee.verify(0)
    except VerifyException as error:
        raise UserError(str(error)) from error
    return callee


def extern(
    shapes: Sequence[Dim] | Sequence[Sequence[Dim]],
    inputs: Sequence[Tensor],
    body: FunctionCall | LoopBody,
    dtype: DTypeLike | Sequence[DTypeLike] | None = None,
    name: str = "extern",
) -> Any:
    """
    A stage that mlc does not look into: it is neither fused nor scheduled.

    `shapes` is one shape, or a list of shapes; the result is a Tensor for one shape, else a tuple of them. Their dtype
    is the inputs' unless `dtype` (one, or one for each shape) is given. `body` is a te.c_call, a te.call, or
    a function `body(b, inputs, outputs)` that writes loops on the buffers with a builder. Sizes may be open (te.var).
    """
    listed = list(shapes)
    several = bool(listed) and all(isinstance(s, list | tuple) for s in listed)
    wanted = cast("list[Sequence[Dim]]", listed if several else [listed])
    shaped = [builder.placeholder(shape).shape for shape in wanted]  # which checks them
    check_name(name)
    values = [_input(t) for t in inputs]
    elements = [builder.signless(e) for e in _elements(dtype, inputs, len(shaped))]
    types = [builder.te_type(e, shape) for (e, _), shape in zip(elements, shaped, strict=True)]
    signs = [t.unsigned for t in inputs] + [unsigned for _, unsigned in elements]
    sizes = _Sizes([n for shape in (*(t.shape for t in inputs), *shaped) for n in shape if isinstance(n, DimExpr)])
    op = _made(name, inputs, values, types, body, shaped, [k for k, unsigned in enumerate(signs) if unsigned], sizes)
    for result in op.results:
        result.name_hint = value_name(name)
    if (kernel := builder.current_kernel()) is not None:
        kernel.place(op)
    made = [
        Tensor(r, shape, e, unsigned, name)
        for r, shape, (e, unsigned) in zip(op.results, shaped, elements, strict=True)
    ]
    return tuple(made) if len(made) > 1 else made[0]


@dataclass
class _Sizes:
    """The sizes of a stage: those of the `?` of its tensors, then those that its function gets besides."""

    listed: list[DimExpr]

    def number(self, size: DimExpr) -> int:
        """The number of a size, which is appended if it is missing."""
        if size not in self.listed:
            self.listed.append(size)
        return self.listed.index(size)

    def exprs(self) -> tuple[list[Index], list[SSAValue]]:
        """As expressions over values that stand for the symbols."""
        kernel = builder.current_kernel()
        stage = StageBuilder([], [], (), kernel.symbols if kernel is not None else None)
        return [stage.index(size) for size in self.listed], stage.values


def _made(
    name: str,
    inputs: Sequence[Tensor],
    values: Sequence[SSAValue],
    types: Sequence[Attribute],
    body: object,
    shapes: Sequence[Shape],
    unsigned: Sequence[int],
    sizes: _Sizes,
) -> ExternOp:
    if isinstance(body, FunctionCall):
        arguments = tuple(_argument(a, inputs, len(types), sizes) for a in body.arguments)
        signs = tuple(unsigned) if body.callee.convention == "registered" else ()
        callee = replace(body.callee, arguments=arguments, unsigned=signs)
        return ExternOp.make(name, values, types, callee, None, *sizes.exprs())
    if not callable(body):
        raise UserError(f"expected a te.c_call, a te.call or a function as the body of te.extern, but got {body!r:.60}")
    for symbol in basis(sizes.listed):
        sizes.number(symbol)
    region = _traced(cast(LoopBody, body), [*(t.shape for t in inputs), *shapes], values, types, sizes)
    return ExternOp.make(name, values, types, None, region, *sizes.exprs())


def _traced(
    body: LoopBody,
    shapes: Sequence[Sequence[Dim]],
    values: Sequence[SSAValue],
    types: Sequence[Attribute],
    sizes: _Sizes,
) -> Region:
    """The loops that a Python function writes."""
    region, block = empty_body([*buffer_types([*(v.type for v in values), *types]), *[INDEX] * len(sizes.listed)])
    first, end = len(values), len(shapes)
    symbols = dict(zip(sizes.listed, block.args[end:], strict=True))
    builder = LoopBodyBuilder(block, symbols, dict(zip(block.args, shapes, strict=False)))
    body(builder, block.args[:first], block.args[first:end])
    block.add_op(loop.YieldOp.create())
    return region


def _input(tensor: object) -> SSAValue:
    if not isinstance(tensor, Tensor):
        raise UserError(f"expected the inputs of te.extern to be a list of tensors, but got {tensor!r:.60}")
    if tensor.value is None:
        raise UserError("expected a placeholder or a stage as input of te.extern, but got te.full")
    return tensor.value


def _elements(
    dtype: DTypeLike | Sequence[DTypeLike] | None, inputs: Sequence[Tensor], count: int
) -> Sequence[Attribute]:
    """The element type of each output, with its sign."""
    if dtype is not None:
        given = list(dtype) if isinstance(dtype, list | tuple) else [dtype] * count
        each = cast("list[DTypeLike]", given)
        if len(each) != count:
            raise UserError(f"expected {count} dtypes of te.extern, but got {len(each)}")
        return [element_type(one) for one in each]
    found = {(t.element, t.unsigned) for t in inputs}
    if len(found) != 1:
        got = "no inputs" if not inputs else "inputs of several dtypes"
        raise UserError(f"expected dtype= of te.extern, since there are {got}")
    ((element, unsigned),) = found
    if not unsigned or not isinstance(element, IntegerType):
        return [element] * count
    return [element_type(f"uint{element.width.data}")] * count


def _argument(value: object, inputs: Sequence[Tensor], outputs: int, sizes: _Sizes) -> Argument:
    """An argument of a C function as an attribute; a size goes into the stage's list."""
    if isinstance(value, DimExpr):
        value = c_size(value, "int32")
    if isinstance(value, CSize):
        return SizeArgument(sizes.number(value.size), value.type)
    if isinstance(value, Tensor):
        at = next((k for k, t in enumerate(inputs) if t.value is value.value), None)
        if at is None:
            raise UserError(f"expected a tensor among the inputs as argument of te.c_call, but got '{value.name}'")
        return IntegerAttr.from_index_int_value(at)
    if isinstance(value, Output):
        if not 0 <= value.index < outputs:
            raise UserError(f"expected te.output of 0..{outputs - 1}, but got {value.index}")
        return IntegerAttr.from_index_int_value(len(inputs) + value.index)
    if isinstance(value, np.generic):
        return _numpy_argument(cast("np.generic[Any]", value))
    if isinstance(value, float):
        return FloatAttr(value, f64)
    if isinstance(value, int) and -(2**31) <= value < 2**31:
        return IntegerAttr(int(value), i32)
    raise UserError(f"expected a tensor, te.output, a number or a size as argument of te.c_call, but got {value!r:.60}")


def _numpy_argument(value: np.generic[Any]) -> Argument:
    """A numpy scalar as an argument of its type."""
    kind, size = value.dtype.kind, value.dtype.itemsize
    if kind == "f" and size in (4, 8):
        return FloatAttr(float(value.item()), f32 if size == 4 else f64)
    if kind in "iub":
        return IntegerAttr(int(value.item()), i64 if size == 8 else i32)
    raise UserError(f"expected a numpy scalar of float32, float64, bool or an integer, but got one of {value.dtype}")
