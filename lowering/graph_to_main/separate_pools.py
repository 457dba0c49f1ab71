"""
Memory pools as arguments of @main, for programs whose caller hands in the memory of each.

    @main(inputs, outputs, weights, workspace)        a view at an offset in the workspace or in the weights
 -> @main(inputs, outputs, pools, weights, workspace)  a view at an offset in its pool

In: @main on buffers, with the pools in its attribute `mlc.pools`. All of them become arguments, in that order.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    i8,
    i64,
)
from xdsl.ir import BlockArgument, Operation, SSAValue

from mlc.dialects.attributes import MAIN_POOLS, MAIN_SCRATCH
from mlc.support.errors import fail

_BYTES = MemRefType(i8, [DYNAMIC_INDEX])


def separate_pools(main: func.FuncOp) -> None:
    """Make each pool an argument of @main; a function without pools is left alone."""
    rows = main.attributes.get(MAIN_POOLS)
    if not isinstance(rows, ArrayAttr):
        return
    block = main.body.block
    weights, workspace = block.args[-2:]
    found: dict[str, list[tuple[int, int, BlockArgument]]] = {"workspace": [], "constant": []}
    for row in rows.data:
        assert isinstance(row, DictionaryAttr)
        pool = block.insert_arg(_BYTES, weights.index)
        found[_text(row, "kind")].append((_number(row, "offset"), _number(row, "used"), pool))
    _insert_types(main, len(rows.data))
    for blob, pools in ((workspace, found["workspace"]), (weights, found["constant"])):
        for use in list(blob.uses):
            if pools:
                _move(use.operation, pools)
    if found["workspace"]:
        _place_scratch(main, found["workspace"])


def _move(op: Operation, pools: list[tuple[int, int, BlockArgument]]) -> None:
    """Make a view of a blob one of the pool in which it lies; an empty one may lie at the end of all."""
    if not isinstance(op, memref.ViewOp) or not isinstance(op.byte_shift.owner, arith.ConstantOp):
        fail(op, "expected only views at constant offsets of memory that lies in pools")
    offset = _integer(op.byte_shift.owner.value)
    start, _, pool = next((one for one in pools if one[0] <= offset < one[0] + one[1]), pools[-1])
    op.operands[0] = pool
    op.operands[1] = _constant(op, offset - start)


def _place_scratch(main: func.FuncOp, pools: list[tuple[int, int, BlockArgument]]) -> None:
    """What kernels share inside lies behind the intermediates of the last pool in use."""
    _, used, pool = max((one for one in pools if one[1]), key=lambda one: one[0], default=pools[0])
    first = main.body.block.first_op
    assert first is not None
    shift = _constant(first, used)
    view = memref.ViewOp.create(operands=[pool, shift], result_types=[MemRefType(i8, [0])])
    view.attributes[MAIN_SCRATCH] = IntegerAttr(1, i64)
    main.body.block.insert_op_before(view, first)


def _constant(before: Operation, value: int) -> SSAValue:
    op = arith.ConstantOp(IntegerAttr(value, IndexType()))
    block = before.parent_block()
    assert block is not None
    block.insert_op_before(op, before)
    return op.result


def _insert_types(main: func.FuncOp, count: int) -> None:
    """The types and attributes of the pools in the signature."""
    kind = main.function_type
    inputs = list(kind.inputs.data)
    inputs[-2:-2] = [_BYTES] * count
    main.function_type = FunctionType.from_lists(inputs, kind.outputs.data)
    if main.arg_attrs is not None:
        attributes = list(main.arg_attrs.data)
        attributes[-2:-2] = [DictionaryAttr({})] * count
        main.properties["arg_attrs"] = ArrayAttr(attributes)


def _text(row: DictionaryAttr, key: str) -> str:
    value = row.data[key]
    assert isinstance(value, StringAttr)
    return value.data


def _number(row: DictionaryAttr, key: str) -> int:
    return _integer(row.data[key])


def _integer(value: Any) -> int:
    assert isinstance(value, IntegerAttr)
    return value.value.data


__all__ = ["separate_pools"]
