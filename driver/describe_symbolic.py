"""What @main of symbolic sizes does, as data for model.json: as describe.py says it, with sizes as expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from mlc.dialects import runtime
from mlc.dialects.graph.dims import Dim, DimExpr, DimsAttr, SymbolAttr
from mlc.driver.describe import origins_of
from mlc.lowering.graph_to_main.symbolic import SCRATCH


def encoded(size: Dim) -> Any:
    """A size as runtime/sizes.py reads it."""
    if isinstance(size, int):
        return size
    return [
        [c, [a if isinstance(a, str) else [encoded(a.value), a.divisor] for a in product]] for product, c in size.terms
    ]


def describe_symbolic(main: func.FuncOp, shapes: Mapping[str, Any], schedules: Mapping[str, str]) -> dict[str, Any]:
    """The calls and their values; `shapes` gives, by kernel, the shapes of its operands."""
    args = main.body.block.args
    inputs, outputs = (_integer(main.attributes[f"mlc.{name}"]) for name in ("inputs", "outputs"))
    views = [op for op in main.body.block.ops if isinstance(op, memref.ViewOp) and op.source is args[-1]]
    buffers = {op.result: k for k, op in enumerate(op for op in views if SCRATCH not in op.attributes)}
    numbers: dict[tuple[SSAValue, str], int] = {}
    values: list[dict[str, Any]] = []

    def number(value: SSAValue, shape: Any) -> int:
        key = (value, str(shape))
        if key not in numbers:
            numbers[key] = len(values)
            place = _place(value, inputs, outputs, buffers, args[-2])  # pyright: ignore
            values.append({**place, "shape": shape, "dtype": str(value.type.element_type)})  # pyright: ignore
        return numbers[key]

    nodes: list[dict[str, Any]] = []
    for op in main.body.block.ops:
        if isinstance(op, runtime.CallOp):
            name = op.callee.string_value()
            facts = shapes[name]
            places = [number(v, s) for v, s in zip((*op.ins, *op.outs), facts["shapes"], strict=True)]
            nodes.append(
                {
                    "kernel": name,
                    "origins": list(origins_of(op)),
                    "inputs": places[: len(op.ins)],
                    "outputs": places[len(op.ins) :],
                    "sizes": facts["sizes"],
                    "flops": 0,
                    "schedule": schedules.get(name, ""),
                    "bytes": 0,
                }
            )
    return {
        "nodes": nodes,
        "values": values,
        "copies": [],
        "plan": {"bytes": 0, "sum": 0, "bound": 0},
        "control_flow": False,
        **_symbols(main),
    }


def _integer(attribute: Any) -> int:
    assert isinstance(attribute, IntegerAttr)
    return attribute.value.data


def _symbols(main: func.FuncOp) -> dict[str, Any]:
    """The symbols with their ranges, and the workspace's buffers: the size of each, and those below it."""
    symbols, buffers = main.attributes["mlc.symbols"], main.attributes["mlc.buffers"]
    assert isinstance(symbols, ArrayAttr)
    assert isinstance(buffers, ArrayAttr)
    found: list[Any] = []
    for one in symbols.data:
        assert isinstance(one, DictionaryAttr)
        name, span = one.data["name"], one.data["range"]
        assert isinstance(name, StringAttr)
        assert isinstance(span, SymbolAttr)
        found.append([name.data, span.low.data, span.high.data, span.step.data])
    rows: list[Any] = []
    for pair in buffers.data:
        size, below = pair.data  # pyright: ignore[reportAttributeAccessIssue]
        assert isinstance(size, DimsAttr)
        (one,) = size.data
        rows.append([encoded(one.evaluate({})), [_integer(k) for k in below.data]])
    return {"symbols": found, "buffers": rows}


def _place(
    value: SSAValue, inputs: int, outputs: int, buffers: Mapping[SSAValue, int], weights: SSAValue
) -> dict[str, Any]:
    """Where a value is: an argument, a buffer of the workspace, or an offset in the weights."""
    while isinstance(value.owner, memref.ReinterpretCastOp):
        value = value.owner.source
    if isinstance(value, BlockArgument):
        first = value.index < inputs
        return {"storage": "input" if first else "output", "index": value.index - (0 if first else inputs), "offset": 0}
    if value in buffers:
        return {"storage": "workspace", "buffer": buffers[value]}
    view = value.owner
    assert isinstance(view, memref.ViewOp)
    assert view.source is weights
    shift = view.byte_shift.owner
    assert isinstance(shift, arith.ConstantOp)
    return {"storage": "weights", "offset": _integer(shift.value)}


def kernel_shapes(source: Operation, names: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The shapes of a kernel's operands and results, and the sizes that it is given."""
    from mlc.dialects.graph.types import shape_of
    from mlc.lowering.graph_to_te.convert import kernel_symbols

    assert isinstance(source, func.FuncOp)
    types = (*source.function_type.inputs, *source.function_type.outputs)
    return {
        "shapes": [[encoded(n) for n in shape_of(t)] for t in types],
        "sizes": [encoded(s) for s in kernel_symbols(source)],
    }


__all__ = ["DimExpr", "describe_symbolic", "encoded", "kernel_shapes"]
