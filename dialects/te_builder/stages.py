"""Stages: `te.compute` traces a function of indices to a te.compute op."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from mlc.dialects import te
from mlc.dialects.attributes import STAGE_NO_INLINE
from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.graph.types import Shape
from mlc.dialects.index import compact
from mlc.dialects.te_builder.indices import (
    Condition,
    IndexExpr,
    ReduceAxis,
    StageBuilder,
    check_body,
    check_name,
    writing,
)
from mlc.dialects.te_builder.reductions import Reduction, as_signed
from mlc.dialects.te_builder.scalars import Scalar
from mlc.dialects.te_builder.tensors import Tensor, sizes_of, te_type
from mlc.dialects.te_extern import ExternOp
from mlc.dialects.value_names import value_name
from mlc.support.errors import UserError

# Attribute of a stage that te-inline does not inline, because its elements are read many times.
NO_INLINE: dict[str, Attribute] = {STAGE_NO_INLINE: UnitAttr()}


@dataclass
class KernelBuilder:
    """A te.func under construction: stages are appended to `block` with the current `location`."""

    block: Block
    location: Any = None
    names: dict[str, int] = field(default_factory=dict)
    symbols: dict[DimExpr, SSAValue] = field(default_factory=dict)
    """The size arguments of the kernel, by the symbols (or products of symbols) that they hold."""

    def place(self, op: te.ComputeOp | te.ScanOp | te.TableOp | ExternOp) -> None:
        """Append a stage, a scan or a table, with a number after the names that are taken."""
        if isinstance(op, te.ScanOp):
            for stage in op.stages:
                self._name(stage)
        if not isinstance(op, te.TableOp):
            self._name(op)
        if self.location is not None:
            op.location = self.location
        self.block.add_op(op)

    def _name(self, op: te.ComputeOp | te.ScanOp | ExternOp) -> None:
        name = op.stage_name
        count = self.names[name] = self.names.get(name, -1) + 1
        if count:
            op.properties["stage"] = type(op.stage)(f"{name}_{count}")


_KERNEL: ContextVar[KernelBuilder | None] = ContextVar("kernel", default=None)


def current_kernel() -> KernelBuilder | None:
    """The kernel to which new stages are appended; None where te.func collects them later."""
    return _KERNEL.get()


@contextmanager
def building(kernel: KernelBuilder) -> Generator[KernelBuilder, None, None]:
    """Context in which new stages are appended to the kernel."""
    token = _KERNEL.set(kernel)
    try:
        yield kernel
    finally:
        _KERNEL.reset(token)


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
    A stage: `fn` maps its indices to an element, or to a te.sum (or another reduction) over axes.

    The result is a Tensor; of a tuple of elements, and of a reduction of several values, a tuple. `axes` names the
    indices (default: the parameters of `fn`); `reduce` orders the reduction axes (default: in order of first use).
    """
    check_name(name)
    shape = sizes_of(shape)
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
        result, back = as_signed(result)
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


def copy_of(tensor: Tensor, name: str) -> Tensor:
    """A stage that copies a tensor; `name` is used where the tensor has none."""

    def element(*i: IndexExpr) -> Scalar:
        return tensor[i]

    return compute(tensor.shape, element, f"{tensor.name or name}_copy")


def _finish(
    stage: StageBuilder, shape: Shape, name: str, values: Sequence[Scalar], combiner: str | te.CustomReducer | None
) -> te.ComputeOp:
    stage.block.add_op(te.YieldOp.create(operands=[v.value for v in values]))
    if stage.unguarded or stage.has_guards:
        _refuse_unguarded(stage)
    extents = [stage.index(n) for n in (*shape, *(a.extent for a in stage.reduce))]
    exprs, symbols = compact(extents, stage.values)
    types = [te_type(v.type, shape) for v in values]
    n = len(shape)
    op = te.ComputeOp.make(name, exprs[:n], exprs[n:], combiner, types, Region(stage.block), symbols)
    for result in op.results:
        result.name_hint = value_name(name)
    return op


def _refuse_unguarded(stage: StageBuilder) -> None:
    """UserError for a read beyond its tensor that is left; those that a condition guards now are unused."""
    for op in reversed(list(stage.block.ops)):
        if op.results and op.results[0].first_use is None:
            op.detach()
            op.erase()
    for read, message in stage.unguarded.items():
        if message and read.parent is stage.block:
            raise UserError(message)


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


def _values(stage: StageBuilder, result: object, name: str) -> tuple[tuple[Scalar, ...], str | te.CustomReducer | None]:
    if isinstance(result, Reduction):
        return result.values, result.combiner
    if stage.reduce:
        used = ", ".join(a.name for a in stage.reduce)
        raise UserError(f"expected '{name}' to reduce axis {used} by te.sum or its like as its whole body")
    values: tuple[object, ...] = result if isinstance(result, tuple) else (result,)  # pyright: ignore[reportUnknownVariableType] - from users
    found: list[Scalar] = []
    for value in values:
        if not isinstance(value, Scalar):
            got = "an index" if isinstance(value, IndexExpr | ReduceAxis) else repr(value)
            raise UserError(f"expected the body of '{name}' to give an element, but got {got}; {_remedy(value)}")
        if value.stage is not stage:
            raise UserError(f"expected the body of '{name}' to give an element of its own, but got another stage's")
        found.append(value)
    return tuple(found), None


def _remedy(value: object) -> str:
    if isinstance(value, Tensor):
        return "read one by its indices, A[i, j]"
    return "a condition is chosen by te.where or te.if_then_else" if isinstance(value, Condition) else "use te.cast"
