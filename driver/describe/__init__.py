"""The description of @main on buffers for model.json: calls, their buffers, and the offsets of the weights."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, StringAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from mlc.dialects import runtime
from mlc.dialects.syntax.source_nodes import origins_of
from mlc.driver.describe.program import ProgramDescription, program_of
from mlc.lowering.graph_to_main.convert import bytes_of, plan_of
from mlc.lowering.graph_to_main.sizes import SizeReader
from mlc.support.copies import contiguous
from mlc.support.weights import WeightStore
from mlc.validation.plans.plan_places import Places


def describe(main: func.FuncOp, flops: Mapping[str, int], schedules: Mapping[str, str]) -> dict[str, Any]:
    """The calls of @main in order, and the values that they work on; each kernel's flops and schedule."""
    values: list[dict[str, Any]] = []
    numbers: dict[SSAValue, int] = {}
    places, program = Places(), ProgramDescription(SizeReader({}), lambda size: size)

    def number(value: SSAValue) -> int:
        if value not in numbers:
            rows = program.rows(value, number)
            numbers[value] = len(values)
            values.append({**_value(main, value, places), **rows})
        return numbers[value]

    nodes: list[dict[str, Any]] = []
    copies: list[list[int]] = []
    calls: dict[Operation, int] = {}
    for op in main.walk():
        if isinstance(op, runtime.CallOp):
            name = op.callee.string_value()
            calls[op] = len(nodes)
            nodes.append(
                {
                    "kernel": name,
                    "origins": list(origins_of(op)),
                    "inputs": [number(v) for v in op.ins],
                    "outputs": [number(v) for v in op.outs],
                    "flops": flops.get(name, 0),
                    "schedule": schedules.get(name, ""),
                    "bytes": sum(bytes_of(_buffer(v)) for v in op.operands),
                }
            )
        elif isinstance(op, memref.CopyOp):
            size = bytes_of(_buffer(op.source))
            copies.append([number(op.source), number(op.destination), size])
    plan = plan_of(main)
    figures = {"bytes": plan.bytes, "sum": plan.sum_bytes, "bound": plan.bound_bytes}
    flow = program_of(main, program, calls, number)
    return {"nodes": nodes, "values": values, "copies": copies, "plan": figures, **flow}


def _buffer(value: SSAValue) -> "MemRefType[Any]":
    assert isinstance(value.type, MemRefType)
    return value.type


def _value(main: func.FuncOp, value: SSAValue, places: Places) -> dict[str, Any]:
    """The storage of a value: an argument, or an offset in the weights or the workspace."""
    place, type_ = places.locate(value), _buffer(value)
    facts: dict[str, Any] = {"shape": list(type_.get_shape()), "dtype": str(type_.element_type)}
    inputs = main.attributes["mlc.inputs"]
    assert isinstance(inputs, IntegerAttr)
    assert isinstance(place.root, BlockArgument)
    index, count = place.root.index, len(main.body.block.args)
    if index >= count - 2:
        kind = "weights" if index == count - 2 else "workspace"
        return {"storage": kind, "offset": place.start, **facts}
    first = inputs.value.data
    kind, position = ("input", index) if index < first else ("output", index - first)
    return {"storage": kind, "index": position, "offset": place.start, **facts}


def write_weights(main: func.FuncOp, store: WeightStore, path: Path) -> int:
    """Write weights.bin, to which @main's weights argument points; return its bytes."""
    import numpy as np

    from mlc.dialects.graph.ops.structure import dense_array

    blob = main.body.block.args[-2]
    end = 0
    with path.open("wb") as file:
        for view in _views(blob):
            start = Places().locate(view.result).start
            file.write(bytes(start - end))
            name, value = view.attributes.get("param"), view.attributes.get("value")
            if not isinstance(name, StringAttr):
                assert value is not None
                array = dense_array(value)
            else:
                array = store.array(name.data)
            expected = bytes_of(_buffer(view.result))
            if array.nbytes != expected:
                raise ValueError(f"expected {expected} bytes of weight {name or value}, but got {array.nbytes}")
            file.write(contiguous(array).reshape(-1).view(np.uint8).data)
            end = start + expected
        total = _buffer(blob).get_shape()[0]
        file.write(bytes(total - end))
    return total


def _views(blob: SSAValue) -> Iterable[memref.ViewOp]:
    """The views of a blob by offset; at one offset empty ones come first."""
    views = [use.operation for use in blob.uses if isinstance(use.operation, memref.ViewOp)]
    return sorted(views, key=lambda view: (Places().locate(view.result).start, bytes_of(_buffer(view.result))))
