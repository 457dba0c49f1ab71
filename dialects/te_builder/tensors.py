"""Tensors of te: placeholders, results of stages, fills and tables of constants; their elements are read by indices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import DYNAMIC_INDEX, BytesAttr, DenseIntOrFPElementsAttr, TensorType
from xdsl.ir import Attribute, Block, BlockArgument, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects import te
from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.graph.types import DTypeLike, Shape, element_type, numpy_dtype, shape_of
from mlc.dialects.index import UNKNOWN, Index, IndexMapAttr, compact, dim
from mlc.dialects.te_builder.bounds import may_be_negative, span_of
from mlc.dialects.te_builder.indices import (
    Condition,
    ElementIndex,
    IndexExpr,
    IndexLike,
    StageBuilder,
    check_name,
    condition,
    current_stage,
)
from mlc.dialects.te_builder.scalars import Number, Scalar, constant, signless, where
from mlc.dialects.value_names import value_name
from mlc.support.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_PLACEHOLDERS: WeakKeyDictionary[Block, tuple[Shape, bool]] = WeakKeyDictionary()
"""By the block that holds a placeholder's value: its shape with symbols, and whether its integers are unsigned."""
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
        if not isinstance(owner, te.ComputeOp):
            raise UserError(f"expected the result of te.compute, but got {self._label}")
        return owner

    def __iter__(self) -> NoReturn:
        raise UserError(f"expected {self._label} to be read by indices, A[i, j], inside of te.compute")

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
        read = self._read(stage, exprs, needed.exprs, otherwise)
        if not needed.exprs:
            self._check_bounds(stage, exprs, read)
        return Scalar(stage, stage.add(read), self.unsigned)

    def _read(
        self, stage: StageBuilder, exprs: Sequence[Index], mask: Sequence[Index], otherwise: Scalar | Number
    ) -> te.ReadOp:
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

    def _check_bounds(self, stage: StageBuilder, exprs: Sequence[Index], read: te.ReadOp) -> None:
        """Let the stage refuse a read outside of the tensor, unless `te.if_then_else` guards it."""
        for axis, (expr, size) in enumerate(zip(exprs, self.shape, strict=True)):
            if not expr.is_affine or any(stage.ranges[d] == UNKNOWN for d in expr.dims()):
                continue
            low, high = span_of(stage, expr)
            if may_be_negative(stage, low) or may_be_negative(stage, size - 1 - high):
                if axis == 0 and self._may_be_earlier_step(stage, expr):
                    stage.unguarded.setdefault(read, "")
                    continue
                remedy = "use te.if_then_else(...) or .read(..., mask=...)"
                if stage.extents == self.shape and (expr - dim(axis)).is_const:
                    remedy += "; a state of te.scan is read at earlier steps of its first axis, s[t - 1, ...]"
                stage.unguarded[read] = (
                    f"expected an index in 0..{size - 1} on axis {axis} of {self._label}, but it spans {low}..{high}; "
                    f"{remedy}"
                )

    def _may_be_earlier_step(self, stage: StageBuilder, expr: Index) -> bool:
        """Whether a read of a placeholder may be one of a scan's state: surely at less than the first axis."""
        is_placeholder = isinstance(self.value, BlockArgument) and self.value.owner.parent_op() is None
        same = stage.extents[:1] == self.shape[:1]
        return is_placeholder and same and (expr - dim(0)).bounds(stage.ranges)[1] < 0

    @property
    def _label(self) -> str:
        return f"'{self.name}' of shape {'x'.join(map(str, self.shape)) or '()'}"


def _as_parts(stage: StageBuilder, mask: Mask) -> list[IndexExpr | Condition]:
    parts = mask if isinstance(mask, Sequence) else [mask]
    return [p if isinstance(p, IndexExpr | Condition) else IndexExpr(stage, stage.index(p)) for p in parts]


def te_type(element: Attribute, shape: Sequence[Dim]) -> TensorType[Any]:
    """The type of a tensor of these sizes; symbolic ones are `?`."""
    return TensorType(element, [n if isinstance(n, int) else DYNAMIC_INDEX for n in shape])


def tensor_of(value: SSAValue, graph_type: Attribute | None = None) -> Tensor:
    """The Tensor of an SSA value; `graph_type` gives its symbolic sizes and the sign of its integers."""
    t = value.type
    assert isinstance(t, TensorType)
    if graph_type is None and isinstance(value.owner, Block) and value.owner in _PLACEHOLDERS:
        shape, unsigned = _PLACEHOLDERS[value.owner]
        return Tensor(value, shape, t.element_type, unsigned, value.name_hint or "")
    _, unsigned = signless(graph_type.element_type) if isinstance(graph_type, TensorType) else (None, False)
    shape = tuple(t.get_shape()) if graph_type is None else shape_of(graph_type)
    return Tensor(value, shape, t.element_type, unsigned, value.name_hint or "")


def element_of_dtype(dtype: DTypeLike) -> tuple[Attribute, bool]:
    """(the element type without a sign, whether it is unsigned); UserError for a dtype that te does not have."""
    try:
        return signless(element_type(dtype))
    except VerifyException as error:
        raise UserError(str(error)) from error


def full(shape: Sequence[Dim], value: Number, dtype: DTypeLike = "float32") -> Tensor:
    """A tensor whose elements all have one value; it has no stage."""
    element, unsigned = element_of_dtype(dtype)
    return Tensor(None, tuple(shape), element, unsigned, "full", value)


def sizes_of(shape: Sequence[Dim]) -> Shape:
    """A shape as ints (numpy's are converted) and symbolic sizes."""
    try:
        sizes = tuple(n if isinstance(n, DimExpr) else operator.index(n) for n in shape)
    except TypeError as error:
        raise UserError(f"expected a shape of whole sizes, but got {shape!r}") from error
    if any(isinstance(n, int) and n < 0 for n in sizes):
        raise UserError(f"expected a shape of sizes >= 0, but got {list(sizes)}")
    return sizes


def table(values: ArrayLike, dtype: DTypeLike | None = None, name: str = "table") -> Tensor:
    """A constant tensor that is part of the kernel; it has the array's element type unless `dtype` is given."""
    import numpy as np

    check_name(name)

    try:
        array = np.asarray(values, None if dtype is None else numpy_dtype(element_type(dtype)))
        element, unsigned = signless(element_type(array.dtype))
    except (TypeError, ValueError, VerifyException) as error:
        raise UserError(f"expected an array of numbers for te.table, but got {values!r:.80}") from error
    t: Any = TensorType(element, list(array.shape))
    if array.dtype == np.bool_ or array.dtype.name == "bfloat16":
        wide = array.astype(np.int64 if array.dtype == np.bool_ else np.float32)
        dense = DenseIntOrFPElementsAttr.from_list(t, wide.ravel().tolist())
    else:
        dense = DenseIntOrFPElementsAttr(t, BytesAttr(np.ascontiguousarray(array).tobytes()))
    op = te.TableOp.make(dense)
    op.result.name_hint = value_name(name)
    return Tensor(op.result, array.shape, element, unsigned, name)


def placeholder(shape: Sequence[Dim], dtype: DTypeLike = "float32", name: str = "x") -> Tensor:
    """An input of a kernel."""
    check_name(name)
    element, unsigned = element_of_dtype(dtype)
    sizes = sizes_of(shape)
    arg = Block(arg_types=[te_type(element, sizes)]).args[0]
    arg.name_hint = value_name(name)
    _PLACEHOLDERS[arg.owner] = (sizes, unsigned)
    return Tensor(arg, sizes, element, unsigned, name)
