"""
From ONNX nodes to graph ops.

A value is an SSA value, or a constant array that becomes an op only where an op needs it: weights end in the
store (`graph.param`), up to 64 elements in the text. An op whose operands are all small constants is evaluated
by its own numpy meaning at once, so that Shape / Gather / Concat / Reshape chains disappear.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph import (
    AvgPool2dOp,
    BatchMatmulOp,
    BatchNormOp,
    CastOp,
    ConstantOp,
    Conv2dOp,
    Conv2dTransposeOp,
    CumulativeOp,
    DenseOp,
    GeluOp,
    GraphOp,
    InstanceNormOp,
    LayerNormOp,
    LogSoftmaxOp,
    MeanOp,
    ParamOp,
    ProdOp,
    SiluOp,
    SoftmaxOp,
    SumOp,
    name_location,
    shape_of,
    tensor,
)
from mlc.dialects.graph.dims import DimExpr
from mlc.dialects.graph.graph_numpy import evaluate
from mlc.dialects.graph.types import element_type, numpy_dtype
from mlc.frontends.common.model import Model, counted_attribute, name_attrs
from mlc.frontends.onnx import narrow
from mlc.frontends.onnx.constants import TooLarge, computed, is_cheap, is_constant
from mlc.frontends.onnx.counted import HINT, marked, plain, result_count
from mlc.frontends.onnx.counted import check as check_counts
from mlc.frontends.onnx.empty import without_elements
from mlc.frontends.onnx.files import check_model, check_sizes, dtype_of, printable, read_model
from mlc.frontends.onnx.functions import Functions, count_nodes, expand, function_key, functions_of, missing_nodes
from mlc.frontends.onnx.node import Node, UseBody, Value, ancestors, find_converter, node_path, op_key
from mlc.frontends.onnx.ordered import in_order
from mlc.frontends.onnx.size_data import SizeData
from mlc.frontends.onnx.sizes import Symbols, Undecided, fold_sizes, holds_sizes, identifier
from mlc.frontends.onnx.spans import result_span
from mlc.frontends.onnx.structured import Parts, outputs_apart, take_apart
from mlc.support.errors import UnsupportedOps, UserError, did_you_mean
from mlc.support.limits import limits
from mlc.support.weights import WeightStore

MAX_RESTARTS = 64
"""An import begins anew at most so often, each time with less freedom for symbolic sizes."""
FOLD_LIMIT = 4096
"""Folding during import makes arrays of at most so many elements; larger ones are folded by a graph pass."""


class Importer:
    """The state of one import."""

    def __init__(self, source: str, directory: Path | None):
        self.source = source
        self.directory = directory
        self.values: dict[str, Value] = {}
        self.missing: dict[str, str] = {}
        self.arguments: dict[SSAValue, str] = {}
        self.functions: Functions = {}
        self.weights = WeightStore()
        self.symbols = Symbols(None)
        self.size_data = SizeData(self)
        self.root = self.block = Block()
        self.captures: dict[SSAValue, SSAValue] = {}
        """What the arguments of regions were at first."""
        self.undecided: dict[SSAValue, str] = {}
        """What compares sizes when the model runs, and which."""
        self.parts = Parts()
        """What the inputs and outputs were before they were taken apart."""
        self.defined: set[str] = set()
        """The names that nodes of the graph, or body, at hand have given."""
        self.depth = 0
        """How many functions stand round the node at hand."""
        self._nodes = 0
        self._count = 0

    def fresh(self, prefix: str) -> str:
        """A name for a constant that the model did not name."""
        self._count += 1
        return f"{prefix}.const{self._count}"

    def emit(self, cls: Any, operands: Sequence[Value], attrs: dict[str, Any], location: str) -> list[Value]:
        """The results of an op on values."""
        if any(v.counted is not None for v in operands):
            return self._counted(cls, operands, attrs, location)
        if cls in WIDENED and (narrow := {v.dtype_name for v in operands} & {"float16", "bfloat16"}):
            return self._widened(cls, operands, attrs, location, narrow.pop())
        folded, reason = None, ""
        made = bool(operands) and all(is_constant(v) for v in operands)
        if any(holds_sizes(v.array) for v in operands):
            try:
                folded = self._fold_sizes(cls, operands, attrs, location)
            except Undecided as error:
                reason = str(error)
            if folded is not None:
                return folded
        elif made or (operands and all(v.array is not None and v.array.size <= FOLD_LIMIT for v in operands)):
            folded = self._fold(cls, operands, attrs, location)
            if folded is not None and not any(v.bound for v in operands):
                return folded
        op = cls.make(*(self.materialize(v, location) for v in operands), **attrs, location=location)
        for result in op.results:
            check_sizes(shape_of(result.type), f"{self.source}: {location}")
        if (arrays := without_elements(op)) is not None:
            op.drop_all_references()
            return [Value(None, array, self.fresh(location)) for array in arrays]
        self.block.add_op(op)
        if reason:
            self.undecided[op.results[0]] = reason
        if folded is not None:
            return [Value(r, v.array, location, bound=True) for r, v in zip(op.results, folded, strict=True)]
        span = None
        if len(op.results) == 1 and any(v.span is not None for v in operands):
            span = result_span(cls, operands, lambda ends: self._fold_any(cls, ends, attrs, location))
        return [Value(result, None, location, span=span, made=made) for result in op.results]

    def computed(self, value: Value) -> Any:
        """The array of a value that is computed from constants alone; None of any other."""
        if value.array is None and value.ssa is not None and value.counted is None:
            value.array = computed(value.ssa, self.weights)
        return value.array

    def _counted(self, cls: Any, operands: Sequence[Value], attrs: dict[str, Any], location: str) -> list[Value]:
        """An op on values of which only a part is there."""
        results = self.emit(cls, [plain(v) for v in operands], attrs, location)
        count = result_count(cls, operands, attrs, results[0].shape)
        if count is None:
            raise ValueError(f"expected operands of {cls.name} of sizes known at import, but the data says them{HINT}")
        return [marked(result, count.axis, count.value) for result in results]

    def _widened(self, cls: Any, operands: Sequence[Value], attrs: dict[str, Any], location: str, narrow: str) -> Any:
        """
        An op on narrow floats that adds many terms: in f32, rounded once at the end.

        The probabilities that a softmax gives are not rounded on their way into a product.
        """

        def cast(value: Value, dtype: str) -> Value:
            if dtype == "float32" and value.wide is not None:
                return value.wide
            return self.emit(CastOp, [value], {"dtype": np.dtype(numpy_dtype(element_type(dtype)))}, location)[0]

        wide = [cast(v, "float32") if v.dtype_name == narrow else v for v in operands]
        results = self.emit(cls, wide, attrs, location)
        return [replace(cast(v, narrow), wide=v if cls is SoftmaxOp else None) for v in results]

    def sources(self, value: Value) -> set[str]:
        """The names of the model's inputs that a value is computed from."""
        return {self.arguments[v] for v in ancestors(value.ssa, self.captures) if v in self.arguments}

    def why_unknown(self, value: Value) -> str:
        """Which comparison of sizes leaves a value open; nothing where that is the inputs' doing."""
        return next((self.undecided[v] for v in ancestors(value.ssa, self.captures) if v in self.undecided), "")

    def _fold_sizes(self, cls: Any, operands: Sequence[Value], attrs: Any, location: str) -> list[Value] | None:
        """The results of an op on sizes that are symbolic; None of an op that needs them as data."""
        if not all(v.array is not None for v in operands):
            return None
        names = ["int64" if v.array.dtype.kind in "iuO" else v.dtype_name for v in operands]
        types = [tensor(v.array.shape, name) for v, name in zip(operands, names, strict=True)]
        stand_ins = [ParamOp.make(result=t, entry="") for t in types]
        op: GraphOp = cls.make(*(s.result for s in stand_ins), **attrs)
        try:
            folded = fold_sizes(op, [v.array for v in operands], self.symbols.spans)
        finally:
            op.drop_all_references()
        return None if folded is None else [Value(None, array, self.fresh(location)) for array in folded]

    def _fold_any(self, cls: Any, operands: Sequence[Value], attrs: Any, location: str) -> list[Value] | None:
        fold = self._fold_sizes if any(holds_sizes(v.array) for v in operands) else self._fold
        return fold(cls, operands, attrs, location)

    def _fold(self, cls: Any, operands: Sequence[Value], attrs: Any, location: str) -> list[Value] | None:
        """The op's results by numpy, if they are small, and cheap where its operands are not; None otherwise."""
        stand_ins = [ParamOp.make(result=tensor(v.shape, v.dtype_name), entry="") for v in operands]
        op: GraphOp = cls.make(*(s.result for s in stand_ins), **attrs)
        sizes = [math.prod(shape_of(result.type)) for result in op.results]
        if any(not isinstance(size, int) or size > FOLD_LIMIT for size in sizes):
            return None
        if not is_cheap(op) and any(math.prod(v.shape) > FOLD_LIMIT for v in operands):
            return None
        try:
            arrays = evaluate(op, [self.computed(v) for v in operands])
        except TooLarge:
            return None
        op.drop_all_references()
        return [Value(None, array, self.fresh(location)) for array in arrays]

    def materialize(self, value: Value, location: str) -> SSAValue:
        """The SSA value of a value; a constant becomes graph.constant or graph.param, once, at the top."""
        if value.ssa is None:
            array = value.known
            if holds_sizes(array):
                value.ssa = self.size_data.tensor(array, location)
                return value.ssa
            if array.size <= ConstantOp.MAX_ELEMENTS:
                op = ConstantOp.make(array, location=name_location(value.name))
            else:
                entry = self.weights.add(self.weights.fresh(value.name), array)
                op = ParamOp.make(result=tensor(array.shape, array.dtype), entry=entry, location=value.name)
            self.root.add_op(op)
            value.ssa = op.result
        return value.ssa

    def run(
        self,
        proto: onnx.ModelProto,
        opsets: Mapping[str, int],
        shapes: Mapping[str, Any],
        values: Mapping[str, Any],
        symbols: Symbols,
    ) -> Model:
        """The model of a graph; of the inputs in `values` the import knows what they are."""
        graph = proto.graph
        self.functions = functions_of(proto)
        self.symbols = symbols
        self._check_ops(graph, opsets)
        for initializer in graph.initializer:
            place = f"{self.source}: initializer '{initializer.name}'"
            self.values[initializer.name] = narrow.initializer(initializer, place, self.directory)
        names = self._add_inputs(graph, shapes, values, symbols)
        for index, node in in_order(graph.node, self.values):
            self.convert(node, node_path(node, index), opsets)
        results = outputs_apart([info.name for info in graph.output], self.values, self.parts)
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
        main.attributes |= counted_attribute(counts) | self.parts.attribute()
        symbols.hold_elements((result.type for op in main.walk() for result in op.results), self.source)
        if used := symbols.used():
            main.attributes["graph.symbols"] = used
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
        self, graph: onnx.GraphProto, shapes: Mapping[str, Any], values: Mapping[str, Any], symbols: Symbols
    ) -> list[str]:
        infos = [info for info in graph.input if info.name not in self.values or info.name in shapes]
        unknown_names = [name for name in shapes if name not in {info.name for info in infos}]
        if unknown_names:
            raise UserError(
                f"{self.source}: shapes= names {unknown_names}, but the inputs are {[info.name for info in infos]}"
            )
        infos, shapes, self.parts = take_apart(infos, shapes, self.source)
        problems: list[str] = []
        for info in infos:
            shape = input_shape(info, shapes.get(info.name), self.source, problems, symbols)
            check_sizes(shape, f"{self.source}: input '{printable(info.name)}'")
            dtype = dtype_of(info.type.tensor_type.elem_type, f"{self.source}: input '{info.name}'")
            argument = self.block.insert_arg(tensor(symbols.sizes(shape), dtype), len(self.block.args))
            argument.name_hint = identifier(info.name)
            argument.location = name_location(info.name)
            self.arguments[argument] = info.name
            self.values[info.name] = Value(argument, values.get(info.name), info.name, bound=info.name in values)
        if problems:
            raise UserError(f"{self.source}: " + "; ".join(problems))
        symbols.check(self.source)
        self.values |= self.parts.values(self.values)
        self.defined = set(self.values)
        return [info.name for info in infos]

    def convert(self, proto: onnx.NodeProto, path: str, opsets: Mapping[str, int]) -> None:
        """Convert one node, whose outputs become values."""
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
        except MemoryError as error:
            raise node.fail(f"expected sizes that fit into memory, but got none: {error}") from error
        except (VerifyException, ValueError, TypeError, IndexError, OverflowError, ArithmeticError) as error:
            if isinstance(error, UserError):
                raise
            raise node.fail(str(error)) from error
        self._define(node, results)

    def _define(self, node: Node, results: Value | Sequence[Value | None]) -> None:
        """Name the results of a node."""
        path, proto = node.path, node.proto
        results = [results] if isinstance(results, Value) else list(results)
        for position, name in enumerate(proto.output):
            if not name:
                continue
            if position >= len(results) or results[position] is None:
                self.missing[name] = f"output {position} of {path} ({proto.op_type})"  # an error if it is used
                continue
            if name in self.defined:
                raise node.fail(f"expected a new name for output {position}, but '{name}' is defined already")
            self.defined.add(name)
            value = results[position]
            # A constant is called after the output that holds it: weights in Constant nodes keep their names.
            assert value is not None
            constant = value.ssa is None and value.array is not None
            self.values[name] = replace(value, name=name) if constant else value

    def _counts(self, names: Sequence[str], outputs: list[SSAValue]) -> dict[str, tuple[int, int]]:
        """Add the counts of outputs to the outputs: name of the count -> (output, axis)."""
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


WIDENED = frozenset(
    {
        AvgPool2dOp, BatchMatmulOp, BatchNormOp, Conv2dOp, Conv2dTransposeOp, DenseOp, GeluOp, InstanceNormOp,
        CumulativeOp, LayerNormOp, LogSoftmaxOp, MeanOp, ProdOp, SiluOp, SoftmaxOp, SumOp,
    }
)  # fmt: skip
"""Ops of many roundings: those of f16 and bf16 would add up."""


def hoist_sources(block: Block) -> None:
    """Weights and constants first, then the computation."""
    sources = [op for op in block.ops if isinstance(op, ParamOp | ConstantOp)]
    for op in sources:
        op.detach()
    first = block.first_op
    for op in sources:
        if first is None:
            block.add_op(op)
        else:
            block.insert_op_before(op, first)


def input_shape(
    info: Any, given: Sequence[Any] | None, source: str, problems: list[str], symbols: Symbols
) -> tuple[Any, ...]:
    """
    An input's sizes from the file and `shapes=`; those that neither knows are symbols.

    A symbol is called as the file calls the size, else after input and axis.
    """
    if not info.type.HasField("tensor_type"):
        raise UserError(f"{source}: input '{info.name}': expected a tensor, but got {info.type.WhichOneof('value')}")
    proto = info.type.tensor_type
    declared = [d.dim_value if d.HasField("dim_value") else None for d in proto.shape.dim]
    names = [d.dim_param or "?" for d in proto.shape.dim]
    if given is not None:
        shape = _given_shape(given, f"{source}: input '{info.name}'")
        ranks = proto.HasField("shape") and len(shape) != len(declared)
        fixed = [d for d, s in zip(declared, shape, strict=False) if d is not None and d > 0 and d != s]
        if ranks or fixed or any(isinstance(s, int) and s < 0 for s in shape):
            sizes = [names[i] if d is None or d <= 0 else d for i, d in enumerate(declared)]
            raise UserError(f"{source}: input '{info.name}': expected a shape like {sizes}, but got {list(shape)}")
        return shape
    if not proto.HasField("shape"):
        problems.append(f"input '{info.name}' has no shape; pass shapes={{\"{info.name}\": (...)}}")
        return ()
    prefix = identifier(info.name) or "input"
    own = [symbols.name(name, f"{prefix}_{axis}") for axis, name in enumerate(names)]
    sizes = zip(declared, own, strict=True)
    return tuple(d if d is not None and d >= 0 else DimExpr.symbol(name) for d, name in sizes)


def _given_shape(given: Any, what: str) -> tuple[Any, ...]:
    """The sizes that `shapes=` gives for one input: whole numbers, and the names of symbols."""
    message = f"{what}: expected a tuple of whole numbers and names as its shape, but got {given!r}"
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UserError(message)
    sizes: tuple[Any, ...] = tuple(given)
    if any(isinstance(s, str) and identifier(s) != s for s in sizes):
        raise UserError(message)
    try:
        return tuple(DimExpr.symbol(s) if isinstance(s, str) else operator.index(s) for s in sizes)
    except TypeError as error:
        raise UserError(message) from error


def import_model(
    source: Any,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    values: Mapping[str, Any] | None = None,
    symbols: Mapping[str, Sequence[int]] | None = None,
) -> Model:
    """
    The model of an .onnx file or a ModelProto; `shapes` gives input sizes that it leaves open, as numbers or names.
    `symbols` gives what sizes that stay open may be: (low, high) or (low, high, step) by name.

    `values` gives what inputs are, where shapes depend on it: the model is then for these values alone.
    """
    if not isinstance(source, str | os.PathLike | onnx.ModelProto):
        raise UserError(f"expected a path, an onnx.ModelProto or an mlc.Model, but got {type(source).__name__}")
    if not isinstance(shapes or {}, Mapping):
        raise UserError(f"expected shapes as a dict of input name -> sizes, but got {type(shapes).__name__}")
    proto, name, directory = read_model(source)
    opsets = check_model(proto, name)
    sizes = Symbols(symbols)
    for _ in range(MAX_RESTARTS):
        sizes.begin()
        try:
            return Importer(name, directory).run(proto, opsets, shapes or {}, values or {}, sizes)
        except UserError as error:
            if not sizes.mended(error, name):
                raise
    raise UserError(f"{name}: expected fewer sizes that must be equal; give the inputs' sizes with shapes=")


def unsupported_nodes(model: onnx.ModelProto) -> list[tuple[str, str, str]]:
    """(node path, op type, why) of each node of a model that mlc has no way to compute."""
    return list(missing_nodes(model.graph, check_model(model, model.graph.name), functions_of(model)))
