"""
Which arrays a kernel is called with, read off its te.func: shapes, types, and the values that integers may have.

Integers that index a tensor stay inside of it, divisors are at least 1, and shifts are small: on any others the
kernel's behaviour is undefined, so that a candidate could neither be run nor compared. What floats must be (the
logarithm wants positive ones) is found by running the default kernel (fill.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IndexType, TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from mlc.dialects import loop, te
from mlc.dialects.constants import narrow_arguments
from mlc.dialects.index import Index
from mlc.interp.compare import epsilon
from mlc.interp.sizes import shapes_at, typical_of
from mlc.interp.values import dtype_of
from mlc.support.errors import UserError
from mlc.tuning.measure.artefact import Signature, TensorInfo
from mlc.validation.execute import Module, make_runnable
from mlc.validation.facts import narrowest

_DIVISIONS = (arith.DivSIOp, arith.DivUIOp, arith.FloorDivSIOp, arith.CeilDivSIOp, arith.RemSIOp, arith.RemUIOp)
_SHIFTS = (arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp)
_LARGEST_DIVISOR = 7
_LARGEST_SHIFT = 3


def signature(kernel: te.FuncOp | loop.FuncOp) -> Signature:
    """The arrays of a kernel's call, at the typical values of its open sizes."""
    module = kernel.parent_op()
    runnable = make_runnable(Module(module), kernel)  # pyright: ignore[reportArgumentType] the parent of a kernel is a module
    if runnable is None:
        raise UserError(
            f"expected @{kernel.sym_name.data} to have static sizes, or the attribute 'typical', to measure it"
        )
    inputs = [TensorInfo(shape, dtype) for shape, dtype in runnable.inputs]
    if isinstance(kernel, te.FuncOp):
        for number, span in _spans(kernel).items():
            inputs[number] = replace(inputs[number], span=span)
    outputs = tuple(TensorInfo(shape, dtype) for shape, dtype in runnable.outputs)
    return Signature(tuple(inputs), outputs, runnable.symbols, _unit(kernel))


def _unit(kernel: te.FuncOp | loop.FuncOp) -> float:
    """Machine epsilon of the narrowest float type that a reduction sums in, at least that of f32; 0 without floats."""
    if not narrowest(kernel):
        return 0.0
    sums = (op for op in kernel.walk() if isinstance(op, te.ComputeOp) and op.combiner is not None)
    types = {r.type.element_type for op in sums for r in op.results if isinstance(r.type, TensorType)}
    units = [epsilon(dtype_of(t)) for t in types if isinstance(t, AnyFloat)]
    return max(units, default=float(np.finfo(np.float32).eps))


def _spans(kernel: te.FuncOp) -> dict[int, tuple[int, int]]:
    """The least and the largest value of integer inputs, by their number, where not all values will do."""
    tensors = [a for a in kernel.args if not isinstance(a.type, IndexType)]
    shapes = dict(zip(tensors, shapes_at(kernel, typical_of(kernel) or ()) or (), strict=False))
    found: dict[int, tuple[int, int]] = {}

    def narrow(value: SSAValue, low: int, high: int) -> None:
        for argument in _origins(value):
            number = tensors.index(argument)
            before = found.get(number, (low, high))
            found[number] = max(low, before[0]), max(low, min(high, before[1]))

    for number in narrow_arguments(kernel):
        narrow(kernel.args[number], -loop.NARROW_LIMIT, loop.NARROW_LIMIT)
    for op in kernel.walk():
        if isinstance(op, te.ReadOp):
            for value in op.indices:
                if isinstance(value.owner, Operation):
                    narrow(value, 0, _largest_index(op, value, shapes))
        elif isinstance(op, _DIVISIONS):
            narrow(op.operands[1], 1, _LARGEST_DIVISOR)
        elif isinstance(op, _SHIFTS):
            narrow(op.operands[1], 0, _LARGEST_SHIFT)
    return found


def _origins(value: SSAValue, seen: set[SSAValue] | None = None) -> Iterator[SSAValue]:
    """The integer arguments of a kernel from which an integer is computed, through stages too."""
    seen = set() if seen is None else seen
    if value in seen:
        return
    seen.add(value)
    if isinstance(value, BlockArgument):
        is_kernels = isinstance(value.block.parent_op(), te.FuncOp)
        if (
            is_kernels
            and isinstance(value.type, TensorType)
            and not str(value.type.element_type).startswith(("f", "b"))
        ):
            yield value
        return
    op = value.owner
    assert isinstance(op, Operation)
    if isinstance(op, te.ReadOp):
        yield from _origins(op.tensor, seen)
    elif isinstance(op, te.ComputeOp):
        yield from _origins(op.yield_op.values[op.results.index(value)], seen)
    else:
        for operand in op.operands:
            yield from _origins(operand, seen)


def _largest_index(read: te.ReadOp, value: SSAValue, shapes: dict[SSAValue, tuple[int, ...]]) -> int:
    """The largest computed value up to which a read stays inside its tensor."""
    number = list(read.indices).index(value)
    type_ = read.tensor.type
    assert isinstance(type_, TensorType)
    sizes = shapes.get(read.tensor) or tuple(type_.get_shape())
    largest = [_fitting(read, e, size) for e, size in zip(read.map.data, sizes, strict=True) if e.uses(number)]
    return min(largest, default=0)


def _fitting(read: te.ReadOp, index: Index, size: int) -> int:
    """The largest value of all computed operands at which an index expression is within its dimension; at least 0."""
    high = max(size - 1, 0)
    while high > 0:
        ranges = {d: _range(v, high) for d, v in enumerate(read.indices)}
        low, top = index.bounds(ranges)
        if low >= 0 and top < size:
            return high
        high //= 2
    return 0


def _range(value: SSAValue, high: int) -> tuple[int, int]:
    """The values of an index operand: an axis has its own, one that data decides has 0 to `high`."""
    if isinstance(value, BlockArgument):
        stage = value.block.parent_op()
        known = stage.ranges[value.index] if isinstance(stage, te.ComputeOp) else None
        return known or (0, 0)
    return 0, high
