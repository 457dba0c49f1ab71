"""`binds` of mlc.build: strides, offset and alignment of a kernel's arrays, as an attribute of the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from mlc.dialects import loop, te
from mlc.dialects.attributes import (
    KERNEL_ARGUMENTS,
    KERNEL_BUFFERS,
    KERNEL_LEAST,
    KERNEL_SIZES,
    KERNEL_SYMBOLS,
    KERNEL_TYPICAL,
)
from mlc.dialects.constants import integers
from mlc.dialects.graph.dims import DimExpr, DimsAttr
from mlc.dialects.index import TYPICAL, Index, IndexMapAttr, const, dim
from mlc.dialects.value_names import value_name
from mlc.support.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from mlc.dialects.te_builder.buffers import BufferBind
    from mlc.dialects.te_builder.tensors import Tensor

Binds: TypeAlias = "Mapping[Tensor | str, BufferBind]"
"""By a placeholder or a result, or its name: how its array lies in memory."""


def tensor_names(kernel: te.FuncOp | loop.FuncOp) -> tuple[list[str], list[str]]:
    """The names of the inputs and of the outputs of a kernel."""
    tensors = [a for a in kernel.args if not isinstance(a.type, IndexType)]
    if isinstance(kernel, te.FuncOp):
        results = [v.name_hint or f"output{k}" for k, v in enumerate(kernel.return_op.values)]
        return [a.name_hint or f"input{k}" for k, a in enumerate(tensors)], results
    names = [a.name_hint or f"arg{k}" for k, a in enumerate(tensors)]
    first = len(names) - kernel.outputs.value.data
    return names[:first], names[first:]


def index_arguments(kernel: te.FuncOp | loop.FuncOp) -> list[SSAValue]:
    """The kernel's arguments that are sizes and strides."""
    return [a for a in kernel.args if isinstance(a.type, IndexType)]


def argument_sizes(kernel: te.FuncOp | loop.FuncOp) -> list[DimExpr]:
    """What the kernel's index arguments hold, as expressions of symbols: each is one where the kernel does not say."""
    given = kernel.attributes.get(KERNEL_ARGUMENTS)
    if isinstance(given, DimsAttr):
        return list(given.data)
    return [DimExpr.symbol(a.name_hint or f"n{k}") for k, a in enumerate(index_arguments(kernel))]


def bound(kernel: te.FuncOp | loop.FuncOp, binds: Binds) -> te.FuncOp | loop.FuncOp:
    """A copy of the kernel with the binds as its attribute, and with arguments for the strides that have names."""
    inputs, outputs = tensor_names(kernel)
    names = [*inputs, *outputs]
    shapes = _ranks(kernel)
    found: dict[int, BufferBind] = {}
    for key, bind in binds.items():
        found[_position(key, names)] = _checked(key, bind)
    copy = kernel.clone()
    sizes = argument_sizes(copy)
    rows: list[Attribute] = []
    for k, (name, rank) in enumerate(zip(names, shapes, strict=True)):
        bind = found.get(k)
        if bind is None:
            rows.append(UnitAttr())
            continue
        if bind.strides is not None and len(bind.strides) != rank:
            raise UserError(f"expected {rank} strides of '{name}', one for each axis, but got {len(bind.strides)}")
        rows.append(_row(bind, [_stride(s, sizes) for s in bind.strides] if bind.strides is not None else None))
    _add_arguments(copy, sizes)
    copy.attributes[KERNEL_BUFFERS] = ArrayAttr(rows)
    return copy


def _checked(key: object, bind: object) -> BufferBind:
    from mlc.dialects.te_builder.buffers import BufferBind

    if not isinstance(bind, BufferBind):
        raise UserError(f"expected binds to map to te.buffer(...), but got {bind!r:.60} for {key!r:.40}")
    return bind


def _position(key: object, names: Sequence[str]) -> int:
    """The number of the tensor that a key of `binds` names."""
    from mlc.dialects.te_builder.tensors import Tensor

    name = key.name if isinstance(key, Tensor) else key
    if not isinstance(name, str) or name not in names:
        hint = did_you_mean(name, names) if isinstance(name, str) else ""
        raise UserError(f"expected a bind of one of {', '.join(names)}, but got {name!r:.60}{hint}")
    if names.count(name) > 1:
        raise UserError(f"expected tensors of different names to bind them, but several are called '{name}'")
    return names.index(name)


def _ranks(kernel: te.FuncOp | loop.FuncOp) -> list[int]:
    types: list[Any] = [a.type for a in kernel.args if not isinstance(a.type, IndexType)]
    if isinstance(kernel, te.FuncOp):
        types += list(kernel.function_type.outputs)
    return [t.get_num_dims() for t in types]


def _stride(stride: int | str, sizes: list[DimExpr]) -> Index:
    """A stride over the index arguments, to which a new name is added."""
    if isinstance(stride, int):
        return const(stride)
    symbol = DimExpr.symbol(stride)
    if symbol not in sizes:
        sizes.append(symbol)
    return dim(sizes.index(symbol))


def _row(bind: BufferBind, strides: Sequence[Index] | None) -> DictionaryAttr:
    facts: dict[str, Attribute] = {"offset": IntegerAttr(bind.offset, i64)}
    if strides is not None:
        facts["strides"] = IndexMapAttr.get(strides)
    if bind.align is not None:
        facts["align"] = IntegerAttr(bind.align, i64)
    return DictionaryAttr(facts)


def _add_arguments(kernel: te.FuncOp | loop.FuncOp, sizes: Sequence[DimExpr]) -> None:
    """Append an index argument for each size behind those that the kernel has."""
    before = index_arguments(kernel)
    block = kernel.body.block
    for size in sizes[len(before) :]:
        block.insert_arg(IndexType(), len(block.args)).name_hint = value_name(str(size))
    kernel.properties["function_type"] = FunctionType.from_lists(
        [a.type for a in block.args], list(kernel.function_type.outputs)
    )
    if not sizes:
        return
    for name, usual in ((KERNEL_TYPICAL, TYPICAL), (KERNEL_LEAST, 1)):
        known = list(integers(kernel.attributes.get(name)) or [usual] * len(before))
        kernel.attributes[name] = DenseArrayBase.from_list(i64, [*known, *[usual] * (len(sizes) - len(before))])
    kernel.attributes[KERNEL_ARGUMENTS] = DimsAttr(tuple(sizes))
    kernel.attributes.setdefault(KERNEL_SYMBOLS, DictionaryAttr({}))
    kernel.attributes.setdefault(KERNEL_SIZES, _static_sizes(kernel))


def _static_sizes(kernel: te.FuncOp | loop.FuncOp) -> ArrayAttr[Any]:
    """The attribute `sizes` of a kernel whose shapes have no symbols."""
    types: list[Any] = [a.type for a in kernel.args if not isinstance(a.type, IndexType)]
    types += list(kernel.function_type.outputs)
    return ArrayAttr([IndexMapAttr.get(const(n) for n in t.get_shape()) for t in types])
