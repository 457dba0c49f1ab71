"""The description of @main of symbolic sizes for model.json, with sizes as expressions (runtime/sizes.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, MemRefType, TensorType
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from mlc.dialects import runtime
from mlc.dialects.attributes import MAIN_SCRATCH, counted_outputs
from mlc.dialects.graph.dims import Bounded, Dim, DimExpr, DimsAttr, FloorDiv, Least, SymbolAttr
from mlc.dialects.graph.ops.structure import bound_symbols
from mlc.dialects.graph.types import dtype_name, element_of, product, shape_of
from mlc.dialects.scalar import byte_size
from mlc.dialects.syntax.source_nodes import origins_of
from mlc.driver.describe.program import ProgramDescription, program_of
from mlc.frontends.common.model import Model
from mlc.lowering.graph_to_main.sizes import SizeReader
from mlc.lowering.graph_to_main.storage import bytes_of
from mlc.lowering.graph_to_main.symbolic import input_symbols
from mlc.runtime.sizes import CompoundAtom, Size
from mlc.validation.plans.plan_places import symbols_on


def encoded(size: Dim) -> Size:
    """A size as runtime/sizes.py reads it."""
    if isinstance(size, int):
        return size
    return [(c, [a if isinstance(a, str) else _encoded_atom(a) for a in product]) for product, c in size.terms]


def _encoded_atom(atom: FloorDiv | Least) -> CompoundAtom:
    if isinstance(atom, FloorDiv):
        return encoded(atom.value), atom.divisor
    return encoded(atom.a.evaluate({})), encoded(atom.b.evaluate({})), "min"


def signature_of(model: Model) -> dict[str, Any]:
    """Names, shapes and dtypes of inputs and outputs, and the symbols with their ranges."""
    main = model.main
    type_ = main.function_type

    def specs(names: tuple[str, ...], types: Iterable[Attribute]) -> list[Any]:
        rows = zip(names, types, strict=True)
        return [[n, [encoded(size) for size in shape_of(t)], dtype_name(element_type_of(t))] for n, t in rows]

    inputs, outputs = specs(model.inputs, type_.inputs), specs(model.outputs, type_.outputs)
    symbols = [symbol_record(name, symbol) for name, symbol in input_symbols(main).items()]
    known = {"counted": counted_outputs(main), "symbols": symbols, "from_0": _from_0(type_.inputs)}
    return {"inputs": inputs, "outputs": outputs, **known}


def symbol_record(name: str, symbol: SymbolAttr) -> list[Any]:
    """A symbol as runtime/sizes.py reads it: [name, low, high, step]."""
    return [name, symbol.low.data, symbol.high.data, symbol.step.data]


def describe_symbolic(
    main: func.FuncOp, shapes: Mapping[str, Any], flops: Mapping[str, Dim], schedules: Mapping[str, str]
) -> dict[str, Any]:
    """The calls and their values; `shapes` gives, by kernel, the shapes of its operands."""
    places = _Storages(main)
    program = ProgramDescription(places.read, encoded)
    numbers: dict[tuple[SSAValue, str], int] = {}
    values: list[dict[str, Any]] = []

    def number(value: SSAValue, shape: Sequence[Size] = ()) -> int:
        key = (value, str(shape))
        if key not in numbers:
            rows = program.rows(value, number)
            numbers[key] = len(values)
            values.append({**places.of(value), **rows, "shape": shape, "dtype": str(element_of(value))})
        return numbers[key]

    nodes: list[dict[str, Any]] = []
    copies: list[Any] = []
    calls: dict[Operation, int] = {}
    for op in main.walk():
        if isinstance(op, runtime.CallOp):
            name = op.callee.string_value()
            calls[op] = len(nodes)
            operands, own = (*op.ins, *op.outs), shapes_at(op, shapes[name])
            numbered = [number(v, [encoded(n) for n in s]) for v, s in zip(operands, own, strict=True)]
            nodes.append(
                {
                    "kernel": name,
                    "origins": list(origins_of(op)),
                    "inputs": numbered[: len(op.ins)],
                    "outputs": numbered[len(op.ins) :],
                    "sizes": [places.size(v) for v in op.sizes],
                    "flops": encoded(DimExpr.of(flops.get(name, 0)).evaluate(bound_symbols(op))),
                    "schedule": schedules.get(name, ""),
                    "bytes": encoded(sum((bytes_at(v, s) for v, s in zip(operands, own, strict=True)), 0)),
                }
            )
        elif isinstance(op, memref.CopyOp | runtime.CopyOp):
            source = op.source
            assert isinstance(source.type, MemRefType)
            size = places.size(op.bytes) if isinstance(op, runtime.CopyOp) else bytes_of(source.type)
            copies.append([number(source), number(op.destination), size])
    return {
        "nodes": nodes,
        "values": values,
        "copies": copies,
        "plan": {"bytes": 0, "sum": 0, "bound": 0},
        **program_of(main, program, calls, number),
        **_symbols(main),
    }


def rooms(nodes: Sequence[Mapping[str, Any]], buffers: Mapping[str, Sequence[Any]]) -> list[Any]:
    """
    The distinct calls of kernels with buffers of symbolic sizes: the buffers' factors, and the call's sizes.

    `buffers` gives, by kernel, the factors of its buffers' bytes.
    """
    found: dict[str, Any] = {}
    for node in nodes:
        if rows := buffers[node["kernel"]]:
            found.setdefault(f"{rows}{node['sizes']}", [rows, node["sizes"]])
    return list(found.values())


def element_type_of(type_: Attribute) -> Attribute:
    """The element type of a tensor type."""
    assert isinstance(type_, TensorType)
    return type_.element_type


def _integer(attribute: Attribute) -> int:
    assert isinstance(attribute, IntegerAttr)
    return attribute.value.data


def _symbols(main: func.FuncOp) -> dict[str, Any]:
    """The symbols with their ranges, which may be 0, and the workspace's buffers: the size of each, and those below."""
    found = [symbol_record(name, values) for name, values in symbols_on(main).items()]
    buffers, shapes = main.attributes["mlc.buffers"], main.attributes["mlc.shapes"]
    assert isinstance(buffers, ArrayAttr)
    assert isinstance(shapes, ArrayAttr)
    rows: list[Any] = []
    for pair in buffers.data:
        assert isinstance(pair, ArrayAttr)
        size, below = pair.data
        assert isinstance(size, DimsAttr)
        (one,) = size.data
        assert isinstance(below, ArrayAttr)
        rows.append([encoded(one.evaluate({})), [_integer(k) for k in below.data]])
    return {"symbols": found, "from_0": _from_0(shapes.data), "buffers": rows}


def _from_0(types: Iterable[Attribute]) -> list[str]:
    """The symbols that may be 0, as the types say."""
    sizes = [size for t in types if isinstance(t, TensorType) for size in shape_of(t) if isinstance(size, DimExpr)]
    found = (name for size in sizes for name in size.symbols())
    return sorted({name for name in found if isinstance(name, Bounded) and name.low < 1})


class _Storages:
    """The storage of values: an argument, a buffer of the workspace, or the weights, each with an offset in bytes."""

    def __init__(self, main: func.FuncOp) -> None:
        args = main.body.block.args
        self.counts = tuple(_integer(main.attributes[f"mlc.{name}"]) for name in ("inputs", "outputs"))
        self.weights = args[-2]
        views = [op for op in main.body.block.ops if isinstance(op, memref.ViewOp) and op.source is args[-1]]
        buffers: list[SSAValue] = [op.result for op in views if MAIN_SCRATCH not in op.attributes]
        self.buffers = {buffer: k for k, buffer in enumerate(buffers)}
        self.read = size_reader(main)

    def size(self, value: SSAValue) -> Any:
        """A size as runtime/sizes.py reads it."""
        size = self.read(value)
        assert size is not None
        return encoded(size)

    def of(self, value: SSAValue) -> dict[str, Any]:
        """The storage of a value; for a row of a stack of values that of the stack."""
        offset: Dim = 0
        while isinstance(op := value.owner, memref.ReinterpretCastOp | runtime.PartOp | runtime.RowOp):
            if isinstance(op, runtime.PartOp):
                shift = 0 if op.shift is None else self.read(op.shift)
                assert shift is not None
                offset = offset + shift + op.offset.value.data
            value = op.source
        if isinstance(value, BlockArgument):
            first = value.index < self.counts[0]
            kind, before = ("input", 0) if first else ("output", self.counts[0])
            return {"storage": kind, "index": value.index - before, "offset": encoded(offset)}
        if (buffer := self.buffers.get(value)) is not None:
            return {"storage": "workspace", "buffer": buffer, "offset": encoded(offset)}
        view = value.owner
        assert isinstance(view, memref.ViewOp)
        assert view.source is self.weights
        shift = self.read(view.byte_shift)
        assert shift is not None
        return {"storage": "weights", "offset": encoded(offset + shift)}


def size_reader(main: func.FuncOp) -> SizeReader:
    """A reader of the sizes in @main as expressions of its symbols."""
    names = list(symbols_on(main))
    args = main.body.block.args
    return SizeReader({arg: DimExpr.symbol(n) for arg, n in zip(args[-2 - len(names) :], names, strict=False)})


def kernel_shapes(source: Operation) -> list[tuple[Dim, ...]]:
    """The shapes of a kernel's operands and results, over its own symbols."""
    assert isinstance(source, func.FuncOp)
    return [shape_of(t) for t in (*source.function_type.inputs, *source.function_type.outputs)]


def shapes_at(call: Operation, shapes: Sequence[tuple[Dim, ...]]) -> list[list[Dim]]:
    """The shapes of a kernel's operands at one of its calls, over the symbols of @main."""
    given = bound_symbols(call)
    return [[n.evaluate(given) if isinstance(n, DimExpr) else n for n in shape] for shape in shapes]


def bytes_at(value: SSAValue, shape: Sequence[Dim]) -> Dim:
    """The bytes of a buffer of this shape."""
    return product(shape) * byte_size(element_of(value))


__all__ = ["describe_symbolic", "encoded", "kernel_shapes", "rooms", "signature_of"]
