"""
te as Python: `mlc.te`. A stage is a Python function of its indices, which is traced to IR.

    A, B = te.placeholder((64, 32), name="A"), te.placeholder((32, 48), name="B")
    k = te.reduce_axis(32, "k")
    C = te.compute((64, 48), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    func = te.func("matmul", [A, B], [C])                       # a te.func op
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NoReturn

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType, TensorType, UnitAttr, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlc.dialects import te
from mlc.dialects.attributes import STAGE_NO_INLINE
from mlc.dialects.combiner import COMBINERS, PAIR_COMBINERS
from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.graph.types import DTypeLike, Shape, element_type, shape_of
from mlc.dialects.index import UNBOUNDED, UNKNOWN, Index, IndexMapAttr, compact
from mlc.dialects.te_builder import scalars
from mlc.dialects.te_builder.indices import (
    Condition,
    ElementIndex,
    IndexExpr,
    IndexLike,
    ReduceAxis,
    StageBuilder,
    check_body,
    condition,
    current_stage,
    writing,
)
from mlc.dialects.te_builder.scalars import (
    Number,
    Scalar,
    abs,
    cast,
    ceil,
    constant,
    cos,
    equal,
    erf,
    exp,
    floor,
    fma,
    holds,
    log,
    maximum,
    minimum,
    power,
    round,
    rsqrt,
    signless,
    sin,
    sqrt,
    tanh,
    trunc,
    where,
)
from mlc.dialects.te_extern import ExternOp
from mlc.support.errors import UserError

# Attribute of a stage that te-inline does not inline, because its elements are read many times.
NO_INLINE: dict[str, Attribute] = {STAGE_NO_INLINE: UnitAttr()}


Mask = Condition | IndexLike | Sequence[IndexLike | Condition]
"""The mask of a read: a condition, or index expressions that must all be >= 0."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """A placeholder or the result of a stage; `A[i, j]` reads an element inside of te.compute."""

    value: SSAValue | None
    shape: tuple[Any, ...]
    element: Attribute
    unsigned: bool = False
    name: str = ""
    fill: Number | None = None

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def op(self) -> te.ComputeOp:
        """The stage that computes the tensor."""
        owner = self.value.owner if self.value is not None else None
        assert isinstance(owner, te.ComputeOp)
        return owner

    def __getitem__(self, indices: ElementIndex | Sequence[ElementIndex]) -> Scalar:
        return self.read(indices)

    def read(
        self, indices: ElementIndex | Sequence[ElementIndex], mask: Mask = (), otherwise: Scalar | Number = 0
    ) -> Scalar:
        """An element; where an expression of `mask` (or a condition) does not hold, `otherwise`."""
        stage = current_stage()
        given = list(indices) if isinstance(indices, Sequence) else [indices]
        if len(given) != len(self.shape):
            raise UserError(f"expected {len(self.shape)} indices of {self._label}, but got {len(given)}")
        exprs = [stage.index(i) for i in given]
        needed = mask if isinstance(mask, Condition) else condition(_as_parts(stage, mask))
        if any(e.bounds(stage.ranges)[1] < 0 for e in needed.exprs):
            return self._scalar(stage, otherwise)
        if self.value is None:
            assert self.fill is not None
            value = self._scalar(stage, self.fill)
            return where(needed, value, otherwise) if needed.exprs else value
        if not needed.exprs:
            self._check_bounds(stage, exprs)
        return Scalar(stage, stage.add(self._read(stage, exprs, needed.exprs, otherwise)), self.unsigned)

    def _read(
        self, stage: StageBuilder, exprs: Sequence[Index], mask: Sequence[Index], otherwise: Scalar | Number
    ) -> Operation:
        done, operands = compact([*exprs, *mask], stage.values)
        properties: dict[str, Attribute] = {"map": IndexMapAttr(done[: len(exprs)])}
        if mask:
            properties["mask"] = IndexMapAttr(done[len(exprs) :])
            operands.append(self._scalar(stage, otherwise).value)
        assert self.value is not None
        return te.ReadOp.create(operands=[self.value, *operands], properties=properties, result_types=[self.element])

    def _scalar(self, stage: StageBuilder, value: Scalar | Number) -> Scalar:
        if isinstance(value, Scalar):
            return value
        return Scalar(stage, constant(stage, value, self.element), self.unsigned)

    def _check_bounds(self, stage: StageBuilder, exprs: Sequence[Index]) -> None:
        for axis, (expr, size) in enumerate(zip(exprs, self.shape, strict=True)):
            if not expr.is_affine or any(stage.ranges[d] == UNKNOWN for d in expr.dims()):
                continue
            low, high = expr.bounds(stage.ranges)
            # a difference of a symbolic size and another index has no known sign
            known = all(stage.ranges[d][1] < UNBOUNDED - (expr.coefficient(d) < 0) for d in expr.dims())
            if (known and low < 0) or (isinstance(size, int) and high >= size):
                raise UserError(
                    f"expected an index in 0..{size - 1} on axis {axis} of {self._label}, but it spans {low}..{high}; "
                    "use .read(..., mask=...)"
                )

    @property
    def _label(self) -> str:
        return f"'{self.name}' of shape {'x'.join(map(str, self.shape)) or '()'}"


def _as_parts(stage: StageBuilder, mask: Mask) -> list[IndexExpr | Condition]:
    parts = mask if isinstance(mask, Sequence) else [mask]
    return [p if isinstance(p, IndexExpr | Condition) else IndexExpr(stage, stage.index(p)) for p in parts]


def te_type(element: Attribute, shape: Sequence[Dim]) -> TensorType[Any]:
    """The type of a tensor of these sizes; symbolic ones are `?`."""
    return TensorType(element, [n if isinstance(n, int) else DYNAMIC_INDEX for n in shape])


def tensor_of(value: SSAValue, graph_type: Attribute | None = None, name: str = "") -> Tensor:
    """The Tensor of an SSA value; `graph_type` gives its symbolic sizes and the sign of its integers."""
    t = value.type
    assert isinstance(t, TensorType)
    _, unsigned = signless(graph_type.element_type) if isinstance(graph_type, TensorType) else (None, False)
    shape = tuple(t.get_shape()) if graph_type is None else shape_of(graph_type)
    return Tensor(value, shape, t.element_type, unsigned, name or value.name_hint or "")


def full(shape: Sequence[Dim], value: Number, dtype: DTypeLike = "float32") -> Tensor:
    """A tensor whose elements all have one value; it has no stage."""
    element, unsigned = signless(element_type(dtype))
    return Tensor(None, tuple(shape), element, unsigned, "full", value)


def _sizes(shape: Sequence[Dim]) -> Shape:
    """A shape as ints (numpy's are converted) and symbolic sizes."""
    try:
        sizes = tuple(n if isinstance(n, DimExpr) else operator.index(n) for n in shape)
    except TypeError as error:
        raise UserError(f"expected a shape of whole sizes, but got {shape!r}") from error
    if any(isinstance(n, int) and n < 0 for n in sizes):
        raise UserError(f"expected a shape of sizes >= 0, but got {list(sizes)}")
    return sizes


def placeholder(shape: Sequence[Dim], dtype: DTypeLike = "float32", name: str = "x") -> Tensor:
    """An input of a kernel."""
    element, unsigned = signless(element_type(dtype))
    sizes = _sizes(shape)
    arg = Block(arg_types=[te_type(element, sizes)]).args[0]
    arg.name_hint = name
    return Tensor(arg, sizes, element, unsigned, name)


def reduce_axis(extent: Dim | tuple[int, int], name: str = "k") -> ReduceAxis:
    """A reduction axis for te.sum, te.max, ...; it runs from 0 to `extent`."""
    if isinstance(extent, tuple):
        if extent[0] != 0:
            raise UserError(f"expected a reduction axis from 0, but got one from {extent[0]}; add it to the index")
        extent = extent[1]
    return ReduceAxis(extent, name)


@dataclass(frozen=True)
class Reduction:
    """The result of a reduction stage's body: the combiner, the reduction axes, the value(s) of one point."""

    combiner: str
    axes: tuple[ReduceAxis, ...]
    values: tuple[Scalar, ...]

    def __repr__(self) -> str:
        return f"te.{self.combiner}(..., axis={', '.join(axis.name for axis in self.axes)})"

    def _refuse(self, *others: object) -> NoReturn:
        raise UserError(f"expected {self!r} to be the whole body of a stage; compute with its result in another stage")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = _refuse


def _reduction(name: str) -> Callable[..., Reduction]:
    def reduce(value: Scalar, axis: ReduceAxis | Sequence[ReduceAxis] = ()) -> Reduction:
        return Reduction(name, _axes(name, axis), (value,))

    reduce.__doc__ = f"The {name} of the value over one or several axes; must be the whole body of a stage."
    return reduce


def _pair(name: str) -> Callable[..., Reduction]:
    def reduce(value: Scalar, axis: ReduceAxis | Sequence[ReduceAxis] = (), index: Scalar | None = None) -> Reduction:
        axes = _axes(name, axis)
        return Reduction(name, axes, (value, cast(axes[0], "int64") if index is None else index))

    reduce.__doc__ = f"(the best value, its first index) over an axis: {name}; a stage of two results."
    return reduce


def size(n: Dim) -> IndexExpr:
    """A size as an index of the current stage."""
    stage = current_stage()
    return IndexExpr(stage, stage.index(n))


def _axes(name: str, axis: ReduceAxis | Sequence[ReduceAxis]) -> tuple[ReduceAxis, ...]:
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    found = tuple(a for a in axes if isinstance(a, ReduceAxis))
    if len(found) < len(axes):
        wrong = next(a for a in axes if not isinstance(a, ReduceAxis))
        raise UserError(f"expected axis to be made by te.reduce_axis, but got {wrong!r}")
    if not found:
        raise UserError(f"expected te.{name} to have an axis: k = te.reduce_axis(n) before, then te.{name}(.., axis=k)")
    return found


sum, prod, max, min = (_reduction(name) for name in COMBINERS)
argmax, argmin = (_pair(name) for name in PAIR_COMBINERS)


@dataclass
class KernelBuilder:
    """A te.func under construction: stages are appended to `block` with the current `location`."""

    block: Block
    location: Any = None
    names: dict[str, int] = field(default_factory=dict)
    symbols: dict[DimExpr, SSAValue] = field(default_factory=dict)
    """The size arguments of the kernel, by the symbols (or products of symbols) that they hold."""

    def place(self, op: te.ComputeOp | ExternOp) -> None:
        """Append a stage, with a number after its name if the name is taken."""
        name = op.stage_name
        count = self.names[name] = self.names.get(name, -1) + 1
        if count:
            op.properties["stage"] = type(op.stage)(f"{name}_{count}")
        if self.location is not None:
            op.location = self.location
        self.block.add_op(op)


_KERNEL: ContextVar[KernelBuilder | None] = ContextVar("kernel", default=None)


@contextmanager
def building(kernel: KernelBuilder) -> Generator[KernelBuilder, None, None]:
    """Context in which new stages are appended to the kernel."""
    token = _KERNEL.set(kernel)
    try:
        yield kernel
    finally:
        _KERNEL.reset(token)


def current_kernel() -> KernelBuilder | None:
    """The kernel to which new stages are appended, if there is one."""
    return _KERNEL.get()


def compute(
    shape: Sequence[Dim],
    fn: Callable[..., Any],
    name: str = "compute",
    *,
    axes: Sequence[str] | None = None,
    reduce: Sequence[ReduceAxis] = (),
    attrs: dict[str, Attribute] | None = None,
) -> Any:
    """
    A stage: `fn` maps its indices to an element, or to a te.sum (prod, max, min, argmax, argmin) over axes.

    The result is a Tensor; for argmax and argmin a pair of them. `axes` names the indices (default: the parameters of
    `fn`); `reduce` orders the reduction axes (default: the order of their first use).
    """
    shape = _sizes(shape)
    names = list(axes) if axes is not None else _names(fn, len(shape))
    stage, result = _trace(shape, names, fn, reduce)
    if isinstance(result, Reduction) and set(stage.reduce) != set(result.axes):
        wrong = set(stage.reduce) ^ set(result.axes)
        raise UserError(
            f"expected '{name}' to use the axes that it reduces, but got {', '.join(sorted(a.name for a in wrong))}"
        )
    if isinstance(result, Reduction) and tuple(stage.reduce) != result.axes and not reduce:
        stage, result = _trace(shape, names, fn, result.axes)
    back = None
    if isinstance(result, Reduction):
        result, back = _as_signed(result)
    values, combiner = _values(stage, result, name)
    op = _finish(stage, shape, name, values, combiner)
    op.attributes.update(attrs or {})
    if (kernel := _KERNEL.get()) is not None:
        kernel.place(op)
    tensors = list(Tensor(r, shape, v.type, v.unsigned, name) for r, v in zip(op.results, values, strict=True))
    if back is not None:
        first = tensors[0]
        tensors[0] = compute(shape, lambda *i: back(first[i]), f"{name}_back", axes=names)
    return tuple(tensors) if len(tensors) > 1 else tensors[0]


def _finish(
    stage: StageBuilder, shape: Shape, name: str, values: Sequence[Scalar], combiner: str | None
) -> te.ComputeOp:
    stage.block.add_op(te.YieldOp.create(operands=[v.value for v in values]))
    extents = [stage.index(n) for n in (*shape, *(a.extent for a in stage.reduce))]
    exprs, symbols = compact(extents, stage.values)
    types = [te_type(v.type, shape) for v in values]
    n = len(shape)
    op = te.ComputeOp.make(name, exprs[:n], exprs[n:], combiner, types, Region(stage.block), symbols)
    for result in op.results:
        result.name_hint = name
    return op


def _as_signed(result: Reduction) -> tuple[Reduction, Callable[[Scalar], Scalar] | None]:
    """
    An equivalent reduction on signed numbers, and the function that converts its result back.

    Booleans become 0 and 1 (their sum is "any", their product "all"); unsigned numbers have the highest bit flipped,
    which preserves their order.
    """
    value = result.values[0]
    if value.type == i1:
        combiner = {"sum": "max", "prod": "min"}.get(result.combiner, result.combiner)
        return Reduction(combiner, result.axes, (cast(value, "int8"), *result.values[1:])), lambda x: cast(x, "bool")
    if not value.unsigned or result.combiner in ("sum", "prod"):
        return result, None
    assert isinstance(value.type, IntegerType)
    high = 1 << (value.type.width.data - 1)
    ordered = Scalar(value.stage, (value ^ high).value)

    def back(x: Scalar) -> Scalar:
        return Scalar(x.stage, (x ^ high).value, True)

    return Reduction(result.combiner, result.axes, (ordered, *result.values[1:])), back


def _names(fn: Callable[..., Any], rank: int) -> list[str]:
    code = getattr(fn, "__code__", None)
    if code is not None and code.co_argcount == rank and not code.co_flags & 4:
        return list(code.co_varnames[:rank])
    return [f"i{k}" for k in range(rank)]


def _trace(
    shape: Sequence[Dim], names: Sequence[str], fn: Callable[..., Any], reduce: Sequence[ReduceAxis]
) -> tuple[StageBuilder, Any]:
    check_body(fn, len(shape))
    kernel = _KERNEL.get()
    stage = StageBuilder(shape, names, reduce, kernel.symbols if kernel is not None else None)
    with writing(stage):
        return stage, fn(*stage.axes)


def _values(stage: StageBuilder, result: object, name: str) -> tuple[tuple[Scalar, ...], str | None]:
    if isinstance(result, Reduction):
        return result.values, result.combiner
    if stage.reduce:
        used = ", ".join(a.name for a in stage.reduce)
        raise UserError(f"expected '{name}' to reduce axis {used} by te.sum or its like as its whole body")
    if not isinstance(result, Scalar):
        raise UserError(f"expected the body of '{name}' to give an element, but got {result!r}; use te.cast")
    return (result,), None


def func(name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> te.FuncOp:
    """The te.func with these inputs and outputs; the stages are copied into it."""
    block = Block(arg_types=[_value(t).type for t in inputs])
    mapping: dict[SSAValue, SSAValue] = {}
    for tensor, arg in zip(inputs, block.args, strict=True):
        mapping[_value(tensor)] = arg
        arg.name_hint = tensor.name
    kernel = KernelBuilder(block)
    for output in outputs:
        _copy_stages(kernel, _value(output), mapping)
    results = [mapping[_value(o)] for o in outputs]
    block.add_op(te.ReturnOp.create(operands=results))
    return te.FuncOp.make(name, [a.type for a in block.args], [r.type for r in results], Region(block))


def read_by(stage: te.ComputeOp | ExternOp) -> list[SSAValue]:
    """The tensors that a stage reads."""
    if isinstance(stage, ExternOp):
        return list(stage.inputs)
    return [op.tensor for op in stage.body.block.ops if isinstance(op, te.ReadOp)]


def _value(tensor: Tensor) -> SSAValue:
    if tensor.value is None:
        raise UserError("expected a placeholder or a stage, but got te.full; copy it by te.compute")
    return tensor.value


def _copy_stages(kernel: KernelBuilder, value: SSAValue, mapping: dict[SSAValue, SSAValue]) -> None:
    if value in mapping:
        return
    op = value.owner
    if not isinstance(op, te.ComputeOp | ExternOp):
        raise UserError(f"expected '{value.name_hint}' among the inputs of te.func, but it is not")
    for tensor in read_by(op):
        _copy_stages(kernel, tensor, mapping)
    copy = op.clone(mapping)
    assert isinstance(copy, te.ComputeOp | ExternOp)
    kernel.place(copy)
    mapping.update(zip(op.results, copy.results, strict=True))


__all__ = [
    "NO_INLINE",
    "Condition",
    "ElementIndex",
    "IndexExpr",
    "IndexLike",
    "KernelBuilder",
    "Number",
    "ReduceAxis",
    "Reduction",
    "Scalar",
    "Tensor",
    "abs",
    "argmax",
    "argmin",
    "building",
    "cast",
    "ceil",
    "compute",
    "condition",
    "cos",
    "current_kernel",
    "current_stage",
    "equal",
    "erf",
    "exp",
    "floor",
    "fma",
    "full",
    "func",
    "holds",
    "log",
    "max",
    "maximum",
    "min",
    "minimum",
    "placeholder",
    "power",
    "prod",
    "read_by",
    "reduce_axis",
    "round",
    "rsqrt",
    "scalars",
    "signless",
    "sin",
    "size",
    "sqrt",
    "sum",
    "tanh",
    "tensor_of",
    "trunc",
    "where",
]
