"""
The importer of ONNX models: walks the nodes in order and has each converted to graph ops.

What emits ops and folds constants is the base, `common/builder.py`; the converters are in `ops/`.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.attributes import GRAPH_SYMBOLS
from mlc.dialects.graph import name_location, tensor
from mlc.dialects.graph.dims import DimExpr
from mlc.dialects.value_names import value_name
from mlc.frontends.common.builder import GraphBuilder, hoist_sources
from mlc.frontends.common.model import Model, counted_attribute, name_attrs
from mlc.frontends.common.sizes import EXPECTED_SIZES, Span, check_listed, check_mapping, check_sizes, identifier
from mlc.frontends.common.source_node import NeedsSizes, NeedsValues
from mlc.frontends.common.values import Value
from mlc.frontends.onnx import narrow
from mlc.frontends.onnx.counts import check_counts
from mlc.frontends.onnx.external import ExternalData
from mlc.frontends.onnx.files import ModelSource, check_model, dtype_of, printable, read_model
from mlc.frontends.onnx.functions import Functions, count_nodes, expand, function_key, functions_of, missing_nodes
from mlc.frontends.onnx.node import Node, UseBody, node_path, op_key
from mlc.frontends.onnx.ordered import in_order
from mlc.frontends.onnx.structured import StructuredValues, outputs_apart, take_apart
from mlc.frontends.onnx.symbols import InputSymbols
from mlc.frontends.onnx.table import find_converter
from mlc.support.errors import UnsupportedOps, UserError, did_you_mean
from mlc.support.limits import limits

MAX_RESTARTS = 64
"""Imports of one model that are tried, each with fewer symbolic sizes left open than the one before."""


class Importer(GraphBuilder):
    """The state of one import of an ONNX model."""

    def __init__(self, source: str, external: ExternalData):
        super().__init__(source)
        self.external = external
        self.values: dict[str, Value] = {}
        self.missing: dict[str, str] = {}
        """Names of results that no converter gives -> the node that ought to."""
        self.functions: Functions = {}
        self.symbols = InputSymbols(None)
        self.structured = StructuredValues()
        """The sequences and optionals among inputs and outputs, which are taken apart into tensors."""
        self.defined: set[str] = set()
        """The names that nodes of the current graph, or body, have defined."""
        self.depth = 0
        """The number of functions that are being expanded around the current node."""
        self._nodes = 0

    @property
    def symbol_ranges(self) -> Mapping[str, Span]:
        """The ranges of the inputs' symbolic sizes."""
        return self.symbols.spans

    def run(
        self,
        proto: onnx.ModelProto,
        opsets: Mapping[str, int],
        shapes: Mapping[str, Any],
        values: Mapping[str, Any],
        symbols: InputSymbols,
    ) -> Model:
        """The model of a graph; `values` has the values of inputs that are known."""
        graph = proto.graph
        self.functions = functions_of(proto)
        self.symbols = symbols
        self._check_ops(graph, opsets)
        for initializer in graph.initializer:
            place = f"{self.source}: initializer '{initializer.name}'"
            self.values[initializer.name] = narrow.initializer(initializer, place, self.external)
        names = self._add_inputs(graph, shapes, values, symbols)
        for index, node in in_order(graph.node, self.values):
            try:
                self.convert(node, node_path(node, index), opsets)
            except NeedsValues as error:
                error.node = index
                raise
        results = outputs_apart([info.name for info in graph.output], self.values, self.structured)
        outputs = [self._output(name) for name in results]
        counts = self._counts(results, outputs)
        self.block.add_op(ReturnOp(*outputs))
        main = FuncOp(
            "main",
            FunctionType.from_lists(self.block.arg_types, [output.type for output in outputs]),
            Region(self.block),
            arg_attrs=name_attrs(names),
            res_attrs=name_attrs([*results, *counts]),
        )
        main.attributes |= counted_attribute(counts) | self.structured.attribute()
        symbols.hold_elements((result.type for op in main.walk() for result in op.results), self.source)
        if used := symbols.used():
            main.attributes[GRAPH_SYMBOLS] = used
        hoist_sources(self.block)
        return Model(ModuleOp([main]), self.weights)

    def _check_ops(self, graph: onnx.GraphProto, opsets: Mapping[str, int]) -> None:
        missing = list(missing_nodes(graph, opsets, self.functions))
        if missing:
            raise UnsupportedOps(self.source, missing)
        if (count := count_nodes(graph.node, self.functions, {})) > limits.ops:
            raise UserError(
                f"{self.source}: expected at most {limits.ops} nodes, functions written out, but got {count}"
            )
        if "" not in opsets and any(node.domain in ("", "ai.onnx") for node in graph.node):
            raise UserError(f"{self.source}: expected an opset version of the domain 'ai.onnx', but got none")

    def _add_inputs(
        self, graph: onnx.GraphProto, shapes: Mapping[str, Any], values: Mapping[str, Any], symbols: InputSymbols
    ) -> list[str]:
        infos = [info for info in graph.input if info.name not in self.values or info.name in shapes]
        unknown_names = [name for name in shapes if name not in {info.name for info in infos}]
        if unknown_names:
            raise UserError(
                f"{self.source}: shapes= names {unknown_names}, but the inputs are {[info.name for info in infos]}"
            )
        infos, shapes, self.structured = take_apart(infos, shapes, self.source)
        problems: list[str] = []
        for info in infos:
            shape = input_shape(info, shapes.get(info.name), self.source, problems, symbols)
            check_sizes(shape, f"{self.source}: input '{printable(info.name)}'")
            dtype = dtype_of(info.type.tensor_type.elem_type, f"{self.source}: input '{info.name}'")
            argument = self.block.insert_arg(tensor(symbols.sizes(shape), dtype), len(self.block.args))
            argument.name_hint = value_name(identifier(info.name))
            argument.location = name_location(info.name)
            self.arguments[argument] = info.name
            self.values[info.name] = Value(argument, values.get(info.name), info.name, bound=info.name in values)
        if problems:
            raise NeedsValues(f"{self.source}: " + "; ".join(problems), set())
        symbols.check(self.source)
        self.values |= self.structured.values(self.values)
        self.defined = set(self.values)
        return [info.name for info in infos]

    def convert(self, proto: onnx.NodeProto, path: str, opsets: Mapping[str, int]) -> None:
        """Convert one node and define its outputs."""
        self._nodes += 1
        if self._nodes > limits.ops:
            raise UserError(
                f"{self.source}: {path} ({proto.op_type}): expected at most {limits.ops} nodes, written out"
            )
        inputs: list[Value | None] = []
        for name in proto.input:
            if name in self.missing:
                raise UserError(f"{self.source}: {path} ({proto.op_type}): mlc does not compute {self.missing[name]}")
            if name and name not in self.values:
                near = did_you_mean(name, self.values)
                place = f"{self.source}: {path} ({proto.op_type})"
                raise UserError(f"{place}: no node before it gives its input '{name}'{near}")
            inputs.append(self.values[name] if name else None)
        node = Node(self, proto, path, inputs, opsets)
        check_counts(node)
        converter = find_converter(op_key(proto))
        try:
            if converter is not None and function_key(proto) not in self.functions:
                node.check_attributes()
                element = narrow.result_type(node)
                try:
                    results = converter(node)
                except UseBody:
                    results = expand(node)
                results = narrow.marked_as(results, element)
            else:
                if function_key(proto) not in self.functions:
                    narrow.result_type(node)
                results = expand(node)
        except NeedsValues:
            raise
        except UserError as error:
            if needed := [v for v in inputs if v is not None and _is_open(v)]:
                sources = [v.counted.value if v.counted is not None else v for v in needed]
                raise NeedsValues(str(error), {name for one in sources for name in self.sources(one)}) from error
            raise
        except MemoryError as error:
            raise node.fail(f"expected sizes that fit into memory, but got none: {error}") from error
        except (VerifyException, ValueError, TypeError, IndexError, OverflowError, ArithmeticError) as error:
            if isinstance(error, NeedsSizes):
                raise NeedsValues(str(node.fail(str(error))), set()) from error
            raise node.fail(str(error)) from error
        self._define(node, results)

    def _define(self, node: Node, results: Value | Sequence[Value | None]) -> None:
        """Define the results of a node under its output names."""
        path, proto = node.path, node.proto
        results = [results] if isinstance(results, Value) else list(results)
        for position, name in enumerate(proto.output):
            if not name:
                continue
            if position >= len(results) or results[position] is None:
                self.missing[name] = f"output {position} of {path} ({proto.op_type})"  # an error only if it is used
                continue
            if name in self.defined:
                raise node.fail(f"expected a new name for output {position}, but '{name}' is defined already")
            self.defined.add(name)
            value = results[position]
            # A constant is named after the output that holds it, so that weights in Constant nodes keep their names.
            assert value is not None
            constant = value.ssa is None and value.array is not None
            self.values[name] = replace(value, name=name) if constant else value

    def _counts(self, names: Sequence[str], outputs: list[SSAValue]) -> dict[str, tuple[int, int]]:
        """Append the counts of padded outputs to the outputs: name of the count -> (output, axis)."""
        found: dict[str, tuple[int, int]] = {}
        for index, name in enumerate(names):
            if (counted := self.values[name].counted) is not None:
                found[f"{name}.count"] = index, counted.axis
                outputs.append(self.materialize(counted.value, name))
        return found

    def _output(self, name: str) -> SSAValue:
        if name not in self.values:
            given = f"mlc does not compute {self.missing[name]}" if name in self.missing else "no node gives it"
            raise UserError(f"{self.source}: output '{name}': {given}")
        if (element := self.values[name].narrow) is not None:
            known = f"expected elements of at least 8 bits, but got {element.name}; add a Cast to INT8 before it"
            raise UserError(f"{self.source}: output '{name}': {known}")
        return self.materialize(self.values[name], name)


def _is_open(value: Value) -> bool:
    """Whether only the data says the size of a value, or what a value of the kind that says sizes and axes is."""
    if value.counted is not None:
        return True
    return value.ssa is not None and value.array is None and len(value.shape) <= 1 and value.dtype_name == "int64"


def input_shape(
    info: Any, given: Sequence[Any] | None, source: str, problems: list[str], symbols: InputSymbols
) -> tuple[Any, ...]:
    """
    An input's sizes from `shapes=` or the file; those that are not fixed are symbols.

    A symbol has the name of the size in the file, or else is named after input and axis. A size of -1 is not fixed:
    PaddlePaddle's exporter writes it so.
    """
    if not info.type.HasField("tensor_type"):
        raise UserError(f"{source}: input '{info.name}': expected a tensor, but got {info.type.WhichOneof('value')}")
    proto = info.type.tensor_type
    declared = [d.dim_value if d.HasField("dim_value") and d.dim_value != -1 else None for d in proto.shape.dim]
    names = [d.dim_param or "?" for d in proto.shape.dim]
    if given is not None:
        shape = _given_shape(given, f"{source}: input '{info.name}'")
        ranks = proto.HasField("shape") and len(shape) != len(declared)
        fixed = [k for k, (d, s) in enumerate(zip(declared, shape, strict=False)) if d is not None and 0 < d != s]
        if ranks or fixed or any(isinstance(s, int) and s < 0 for s in shape):
            sizes = [names[i] if d is None or d <= 0 else d for i, d in enumerate(declared)]
            message = f"{source}: input '{info.name}': expected a shape like {sizes}, but got {list(shape)}"
            if fixed and not ranks:
                message += f"; the file fixes axis {fixed[0]} at {declared[fixed[0]]}, only open sizes can be given"
            raise UserError(message)
        return shape
    if not proto.HasField("shape"):
        problems.append(f"input '{info.name}' has no shape; pass shapes={{\"{info.name}\": (...)}} (--shape)")
        return ()
    for axis, d in enumerate(declared):
        if d is not None and d < 0:
            remedy = f'pass shapes={{"{info.name}": (...)}} (--shape), or let the file name the size (dim_param)'
            problems.append(f"input '{info.name}': expected a size of at least 0 at axis {axis}, but got {d}; {remedy}")
            return ()
    prefix = identifier(info.name) or "input"
    own = [symbols.name(name, f"{prefix}_{axis}") for axis, name in enumerate(names)]
    sizes = zip(declared, own, strict=True)
    return tuple(d if d is not None else DimExpr.symbol(name) for d, name in sizes)


def _given_shape(given: Iterable[int | str], what: str) -> tuple[Any, ...]:
    """The sizes that `shapes=` gives for one input: integers and names of symbols."""
    check_listed(given, what)
    message = f"{what}: {EXPECTED_SIZES}, but got {given!r}"
    sizes: tuple[Any, ...] = tuple(given)
    if any(isinstance(s, str) and identifier(s) != s for s in sizes):
        raise UserError(message)
    try:
        return tuple(DimExpr.symbol(s) if isinstance(s, str) else operator.index(s) for s in sizes)
    except TypeError as error:
        raise UserError(message) from error


def import_model(
    source: ModelSource,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    values: Mapping[str, Any] | None = None,
    symbols: Mapping[str, Sequence[int]] | None = None,
    mapped: bool = False,
) -> Model:
    """
    The model of an .onnx file or a ModelProto.

    `shapes` gives sizes of inputs that the file leaves open, as numbers or names; `symbols` the ranges of sizes that
    stay symbolic, (low, high) or (low, high, step) by name. `values` gives the values of inputs that shapes depend on:
    the model is then valid for these values alone. `mapped` leaves large weights in the file, which must not change as
    long as the model is used.
    """
    if not isinstance(source, str | os.PathLike | onnx.ModelProto):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
        raise UserError(f"expected a path, an onnx.ModelProto or an mlc.Model, but got {type(source).__name__}")
    check_mapping(shapes)
    return import_proto(*read_model(source, mapped), shapes or {}, values or {}, symbols)


def import_proto(
    proto: onnx.ModelProto,
    name: str,
    external: ExternalData,
    shapes: Mapping[str, Sequence[Any]],
    values: Mapping[str, Any],
    symbols: Mapping[str, Sequence[int]] | None = None,
) -> Model:
    """As `import_model`, of a ModelProto with this name in messages, and this external data."""
    opsets = check_model(proto, name)
    sizes = InputSymbols(symbols)
    for _ in range(MAX_RESTARTS):
        sizes.begin()
        try:
            return Importer(name, external).run(proto, opsets, shapes, values, sizes)
        except UserError as error:
            if not sizes.mended(error, name):
                raise
    raise UserError(f"{name}: expected fewer sizes that must be equal; give the inputs' sizes with shapes=")


def unsupported_nodes(model: onnx.ModelProto) -> list[tuple[str, str, str]]:
    """(node path, op type, reason) of each node of a model that mlc does not support."""
    return list(missing_nodes(model.graph, check_model(model, model.graph.name), functions_of(model)))
