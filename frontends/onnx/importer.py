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
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph import ConstantOp, GraphOp, ParamOp, name_location, shape_of, tensor
from mlc.dialects.graph.graph_numpy import evaluate
from mlc.driver.errors import UnsupportedOps, UserError
from mlc.driver.model import Model, name_attrs
from mlc.driver.weights import WeightStore
from mlc.frontends.onnx.files import check_model, dtype_of, read_model, tensor_array

FOLD_LIMIT = 4096
"""Folding during import makes arrays of at most so many elements; larger ones are folded by a graph pass."""


@dataclass(eq=False)
class Value:
    """A tensor during import: an SSA value, a constant array, or (once an op used the constant) both."""

    ssa: SSAValue | None
    array: Any
    name: str

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes."""
        return self.array.shape if self.ssa is None else shape_of(self.ssa.type)

    @property
    def dtype(self) -> Any:
        """The element type, as a numpy dtype or an xDSL type."""
        return self.array.dtype if self.ssa is None else self.ssa.type.element_type  # pyright: ignore


Converter: TypeAlias = "Callable[[Node], Value | Sequence[Value]]"


class Node:
    """One ONNX node during its conversion: its inputs and attributes, and the means to emit graph ops."""

    def __init__(self, importer: Importer, proto: onnx.NodeProto, path: str, inputs: list[Value | None], opset: int):
        self.importer = importer
        self.proto = proto
        self.path = path
        self.inputs = inputs
        self.opset = opset
        self._attributes = {attribute.name: attribute for attribute in proto.attribute}

    def check_attributes(self) -> None:
        """Check the attributes' types against ONNX's own schema of the op."""
        try:
            schema = onnx.defs.get_schema(self.proto.op_type, self.opset).attributes
        except onnx.defs.SchemaError:
            raise self.fail(f"expected an op of opset {self.opset}, but it has no {self.proto.op_type}") from None
        for name, proto in self._attributes.items():
            wanted: Any = schema[name].type if name in schema else None  # an enum, which the stubs do not say
            if wanted is not None and int(wanted.value) != proto.type:
                names = onnx.AttributeProto.AttributeType
                raise self.fail(f"expected attribute {name} of type {wanted.name}, but got {names.Name(proto.type)}")

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as a Python value; a tensor as an array."""
        proto = self._attributes.get(name)
        if proto is None:
            return default
        value = onnx.helper.get_attribute_value(proto)
        if isinstance(value, onnx.TensorProto):
            return tensor_array(value, f"{self.path}: attribute {name}", self.importer.directory)
        return value.decode() if isinstance(value, bytes) else list(value) if proto.type > 5 else value

    def fail(self, message: str) -> UserError:
        """An error about this node."""
        return UserError(f"{self.importer.source}: {self.path} ({self.proto.op_type}): {message}")

    def has(self, index: int) -> bool:
        """Whether input `index` is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def input(self, index: int) -> Value:
        """Input `index`, which must be given."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise self.fail(f"expected at least {index + 1} inputs, but got {len(self.inputs)}")
        return value

    def constant(self, index: int) -> Any:
        """Input `index` as an array; it must be known at import."""
        value = self.input(index)
        if value.array is None:
            raise self.fail(
                f"expected input {index} ('{value.name}') to be constant, but it depends on the model's input"
            )
        return value.array

    def ints(self, index: int, name: str | None = None, default: Any = None) -> Any:
        """Integers from an attribute `name`, else from input `index`."""
        if name is not None and name in self._attributes:
            return list(self.attr(name))
        return [int(v) for v in self.constant(index).reshape(-1)] if self.has(index) else default

    def emit(self, op: Any, *operands: Value, **attrs: Any) -> Value:
        """The (first) result of an op on values."""
        return self.emit_all(op, *operands, **attrs)[0]

    def emit_all(self, op: Any, *operands: Value, **attrs: Any) -> list[Value]:
        """The results of an op on values: a new op, or arrays if everything is small and constant."""
        try:
            return self.importer.emit(op, operands, attrs, self.path)
        except VerifyException as error:
            raise self.fail(str(error)) from error

    def array(self, array: Any, like: Value | None = None) -> Value:
        """A constant, with the element type of `like` if given."""
        array = np.asarray(array)
        if like is not None:
            array = array.astype(dtype_like(like))
        return Value(None, array, self.importer.fresh(self.path))


def dtype_like(value: Value) -> Any:
    """The numpy dtype of a value's elements."""
    from mlc.dialects.graph.types import numpy_dtype

    return value.array.dtype if value.ssa is None else numpy_dtype(value.dtype)


class Importer:
    """The state of one import."""

    def __init__(self, source: str, directory: Path | None):
        self.source = source
        self.directory = directory
        self.values: dict[str, Value] = {}
        self.missing: dict[str, str] = {}
        self.weights = WeightStore()
        self.block = Block()
        self._count = 0

    def fresh(self, prefix: str) -> str:
        """A name for a constant that the model did not name."""
        self._count += 1
        return f"{prefix}.const{self._count}"

    def emit(self, cls: Any, operands: Sequence[Value], attrs: dict[str, Any], location: str) -> list[Value]:
        """The results of an op on values."""
        if all(v.array is not None and v.array.size <= FOLD_LIMIT for v in operands):
            folded = self._fold(cls, operands, attrs, location)
            if folded is not None:
                return folded
        op = cls.make(*(self.materialize(v, location) for v in operands), **attrs, location=location)
        self.block.add_op(op)
        return [Value(result, None, location) for result in op.results]

    def _fold(self, cls: Any, operands: Sequence[Value], attrs: Any, location: str) -> list[Value] | None:
        """The op's results by numpy, if they are small; None otherwise."""
        stand_ins = [ParamOp.make(result=tensor(v.array.shape, v.array.dtype), entry="") for v in operands]
        op: GraphOp = cls.make(*(s.result for s in stand_ins), **attrs)
        if any(math.prod(shape_of(result.type)) > FOLD_LIMIT for result in op.results):  # pyright: ignore
            return None
        arrays = evaluate(op, [v.array for v in operands])
        op.drop_all_references()
        return [Value(None, array, self.fresh(location)) for array in arrays]

    def materialize(self, value: Value, location: str) -> SSAValue:
        """The SSA value of a value; a constant becomes graph.constant or graph.param, once, at the top."""
        if value.ssa is None:
            array = value.array
            if array.size <= ConstantOp.MAX_ELEMENTS:
                op = ConstantOp.make(array, location=name_location(value.name))
            else:
                entry = self.weights.add(self.weights.fresh(value.name), array)
                op = ParamOp.make(result=tensor(array.shape, array.dtype), entry=entry, location=value.name)
            self.block.add_op(op)
            value.ssa = op.result
        return value.ssa

    def run(self, graph: onnx.GraphProto, opsets: Mapping[str, int], shapes: Mapping[str, Sequence[int]]) -> Model:
        """The model of a graph."""
        converters = _converters()
        self._check_ops(graph, opsets, converters)
        for initializer in graph.initializer:
            place = f"{self.source}: initializer '{initializer.name}'"
            array = tensor_array(initializer, place, self.directory)
            self.values[initializer.name] = Value(None, array, initializer.name)
        names = self._add_inputs(graph, shapes)
        for index, proto in enumerate(graph.node):
            self._convert(proto, index, opsets, converters)
        outputs = [self._output(info.name) for info in graph.output]
        self.block.add_op(ReturnOp(*outputs))
        main = FuncOp(
            "main",
            FunctionType.from_lists(self.block.arg_types, [output.type for output in outputs]),
            Region(self.block),
            arg_attrs=name_attrs(names),
            res_attrs=name_attrs([info.name for info in graph.output]),
        )
        _hoist_sources(self.block)
        return Model(ModuleOp([main]), self.weights)

    def _check_ops(self, graph: onnx.GraphProto, opsets: Mapping[str, int], converters: Mapping[str, Any]) -> None:
        missing: list[tuple[str, str, str]] = []
        for index, node in enumerate(graph.node):
            domain = "" if node.domain == "ai.onnx" else node.domain
            if domain:
                missing.append((node_path(node, index), f"{domain}.{node.op_type}", "another domain"))
            elif node.op_type not in converters:
                missing.append((node_path(node, index), node.op_type, ""))
            elif domain not in opsets:
                raise UserError(f"{self.source}: expected an opset version of the domain 'ai.onnx', but got none")
        if missing:
            raise UnsupportedOps(self.source, missing)

    def _add_inputs(self, graph: onnx.GraphProto, shapes: Mapping[str, Sequence[int]]) -> list[str]:
        infos = [info for info in graph.input if info.name not in self.values]
        unknown_names = [name for name in shapes if name not in {info.name for info in infos}]
        if unknown_names:
            raise UserError(
                f"{self.source}: shapes= names {unknown_names}, but the inputs are {[info.name for info in infos]}"
            )
        problems: list[str] = []
        for info in infos:
            shape = _input_shape(info, shapes.get(info.name), self.source, problems)
            dtype = dtype_of(info.type.tensor_type.elem_type, f"{self.source}: input '{info.name}'")
            argument = self.block.insert_arg(tensor(shape, dtype), len(self.block.args))
            argument.name_hint = _identifier(info.name)
            argument.location = name_location(info.name)
            self.values[info.name] = Value(argument, None, info.name)
        if problems:
            raise UserError(f"{self.source}: " + "; ".join(problems))
        return [info.name for info in infos]

    def _convert(self, proto: onnx.NodeProto, index: int, opsets: Mapping[str, int], converters: Any) -> None:
        path = node_path(proto, index)
        inputs: list[Value | None] = []
        for name in proto.input:
            if name in self.missing:
                raise UserError(f"{self.source}: {path} ({proto.op_type}): mlc does not compute {self.missing[name]}")
            if name and name not in self.values:
                raise UserError(f"{self.source}: {path} ({proto.op_type}): no node before it gives its input '{name}'")
            inputs.append(self.values[name] if name else None)
        node = Node(self, proto, path, inputs, opsets[""])
        node.check_attributes()
        try:
            results = converters[proto.op_type](node)
        except (VerifyException, ValueError, TypeError, IndexError, OverflowError, ArithmeticError) as error:
            raise error if isinstance(error, UserError) else node.fail(str(error)) from error
        results = [results] if isinstance(results, Value) else list(results)
        for position, name in enumerate(proto.output):
            if not name:
                continue
            if position >= len(results):
                self.missing[name] = f"output {position} of {path} ({proto.op_type})"  # an error if it is used
                continue
            if name in self.values:
                raise node.fail(f"expected a new name for output {position}, but '{name}' is defined already")
            value = results[position]
            # A constant is called after the output that holds it: weights in Constant nodes keep their names.
            self.values[name] = Value(None, value.array, name) if value.ssa is None else value

    def _output(self, name: str) -> SSAValue:
        if name not in self.values:
            given = f"mlc does not compute {self.missing[name]}" if name in self.missing else "no node gives it"
            raise UserError(f"{self.source}: output '{name}': {given}")
        return self.materialize(self.values[name], name)


def _hoist_sources(block: Block) -> None:
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


def _input_shape(info: Any, given: Sequence[int] | None, source: str, problems: list[str]) -> tuple[int, ...]:
    """An input's sizes from the file and `shapes=`; what stays unknown goes to `problems`."""
    if not info.type.HasField("tensor_type"):
        raise UserError(f"{source}: input '{info.name}': expected a tensor, but got {info.type.WhichOneof('value')}")
    proto = info.type.tensor_type
    declared = [d.dim_value if d.HasField("dim_value") else None for d in proto.shape.dim]
    names = [d.dim_param or "?" for d in proto.shape.dim]
    if given is not None:
        shape = _given_shape(given, f"{source}: input '{info.name}'")
        ranks = proto.HasField("shape") and len(shape) != len(declared)
        fixed = [d for d, s in zip(declared, shape, strict=False) if d is not None and d > 0 and d != s]
        if ranks or fixed or min(shape, default=1) < 1:
            sizes = [names[i] if d is None or d <= 0 else d for i, d in enumerate(declared)]
            wanted = f"{sizes} with sizes of at least 1"
            raise UserError(f"{source}: input '{info.name}': expected a shape like {wanted}, but got {list(shape)}")
        return shape
    if not proto.HasField("shape"):
        problems.append(f"input '{info.name}' has no shape; pass shapes={{\"{info.name}\": (...)}}")
        return ()
    if all(d is not None and d >= 0 for d in declared):
        return tuple(declared)  # pyright: ignore
    unknown = [f"{i} ({names[i]})" for i, d in enumerate(declared) if d is None or d < 0]
    wanted = ["?" if d is None or d < 0 else str(d) for d in declared]
    problems.append(
        f"input '{info.name}' has unknown sizes on axes {', '.join(unknown)}; "
        f'pass shapes={{"{info.name}": ({", ".join(wanted)})}} (--shape {info.name}={"x".join(wanted)}) '
        "with a number for each ?"
    )
    return tuple(max(d or 0, 0) for d in declared)


def _given_shape(given: Any, what: str) -> tuple[int, ...]:
    """The sizes that `shapes=` gives for one input."""
    try:
        return tuple(operator.index(size) for size in given)
    except TypeError as error:
        raise UserError(f"{what}: expected a tuple of whole numbers as its shape, but got {given!r}") from error


def node_path(node: onnx.NodeProto, index: int) -> str:
    """What messages and locations call a node: its name, else type and index."""
    return node.name or f"{node.op_type}_{index}"


def _identifier(name: str) -> str | None:
    cleaned = re.sub(r"\W", "_", name, flags=re.ASCII)
    return cleaned if re.fullmatch(r"[A-Za-z_]\w*", cleaned) else None


def _converters() -> dict[str, Converter]:
    from mlc.frontends.onnx import math as math_ops
    from mlc.frontends.onnx import nn, resize, shape

    return {**math_ops.CONVERTERS, **nn.CONVERTERS, **resize.CONVERTERS, **shape.CONVERTERS}


def import_model(source: Any, shapes: Mapping[str, Sequence[int]] | None = None) -> Model:
    """The model of an .onnx file or a ModelProto; `shapes` gives the input sizes that it leaves open."""
    if not isinstance(source, str | os.PathLike | onnx.ModelProto):
        raise UserError(f"expected a path, an onnx.ModelProto or an mlc.Model, but got {type(source).__name__}")
    if not isinstance(shapes or {}, Mapping):
        raise UserError(f"expected shapes as a dict of input name -> sizes, but got {type(shapes).__name__}")
    proto, name, directory = read_model(source)
    opsets = check_model(proto, name)
    return Importer(name, directory).run(proto.graph, opsets, shapes or {})
