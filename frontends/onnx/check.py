"""
All problems of a model, not only the first: `mlc check`.

Results of a node that cannot be imported are replaced by placeholders of the types that ONNX's shape inference gives,
so that the nodes after it are checked as well. Nodes that remain unchecked are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import onnx

from mlc.dialects.graph import ParamOp, tensor
from mlc.dialects.graph.dims import DimExpr
from mlc.dialects.graph.types import shape_text
from mlc.frontends.common.sizes import check_sizes
from mlc.frontends.common.values import Value
from mlc.frontends.onnx import narrow
from mlc.frontends.onnx.external import ExternalData
from mlc.frontends.onnx.files import check_model, dtype_of, printable, read_model
from mlc.frontends.onnx.functions import functions_of, missing_nodes
from mlc.frontends.onnx.importer import MAX_RESTARTS, Importer, input_shape
from mlc.frontends.onnx.node import node_path
from mlc.frontends.onnx.ordered import in_order
from mlc.frontends.onnx.structured import StructuredValues, take_apart
from mlc.frontends.onnx.symbols import InputSymbols
from mlc.frontends.onnx.table import converters
from mlc.support.errors import UserError, did_you_mean


@dataclass(frozen=True)
class ModelProblem:
    """One problem: the node, its op, the message, the shapes of its inputs, and a remedy."""

    node: str
    op: str
    message: str
    inputs: tuple[str, ...] = ()
    instead: str = ""

    def record(self) -> dict[str, Any]:
        """The problem as a JSON object."""
        return asdict(self)


@dataclass
class CheckReport:
    """All problems of a model, and how many nodes were checked."""

    problems: list[ModelProblem] = field(default_factory=list)
    checked: int = 0
    unknown: int = 0
    """Nodes that were not checked, because the types of their inputs are unknown."""


class RestartCheck(Exception):
    """The check starts again, with sizes that a node requires to be equal made equal."""


class Checker(Importer):
    """An import that continues after errors."""

    def __init__(self, source: str, external: ExternalData, types: Mapping[str, Any], symbols: InputSymbols):
        super().__init__(source, external)
        self.types = dict(types)
        self.symbols = symbols
        self.report = CheckReport()
        self.lost: set[str] = set()

    def check(self, proto: onnx.ModelProto, opsets: Mapping[str, int], shapes: Mapping[str, Any]) -> CheckReport:
        """Check weights, inputs, nodes and outputs, each on its own."""
        graph = proto.graph
        self.functions = functions_of(proto)
        missing = {path: (kind, why) for path, kind, why in missing_nodes(graph, opsets, self.functions)}
        for initializer in graph.initializer:
            place = f"{self.source}: initializer '{initializer.name}'"
            try:
                self.values[initializer.name] = narrow.initializer(initializer, place, self.external)
            except UserError as error:
                self.note(f"initializer '{initializer.name}'", "", error)
                self.add_placeholder(initializer.name)
        given = [info.name for info in graph.input if info.name not in self.values or info.name in shapes]
        for name in [name for name in shapes if name not in given]:
            instead = f"its inputs are {', '.join(map(printable, given))}"
            self.report.problems.append(
                ModelProblem(f"input '{name}'", "", "the model has no such input", instead=instead)
            )
        for info in self.inputs(graph, shapes):
            try:
                dtype_of(info.type.tensor_type.elem_type, f"input '{info.name}'")
            except UserError as error:
                self.note(f"input '{info.name}'", "", error)
            self.open_input(info, shapes)
            self.add_placeholder(info.name)
        whole = {name: parts for name, parts in self.structured.names.items() if self.values.keys() >= set(parts or ())}
        self.values |= StructuredValues(whole).values(self.values)
        self.defined = set(self.values)
        for index, node in in_order(graph.node, self.values):
            self.node(node, node_path(node, index), opsets, missing)
        for info in graph.output:
            if info.name not in self.values and info.name not in self.lost:
                self.report.problems.append(ModelProblem(f"output '{printable(info.name)}'", "", "no node gives it"))
        return self.report

    def inputs(self, graph: onnx.GraphProto, shapes: Mapping[str, Any]) -> list[onnx.ValueInfoProto]:
        """The inputs as tensors; sequences and optionals are taken apart."""
        found: list[onnx.ValueInfoProto] = []
        for info in graph.input:
            try:
                tensors, sizes, parts = take_apart([info], shapes, self.source)
            except UserError as error:
                self.note(f"input '{info.name}'", "", error)
                self.lost.add(info.name)
                continue
            self.structured.names |= parts.names
            found += tensors
            for one in tensors:
                if one is not info:  # a tensor of a sequence or optional, of the given shape
                    element = one.type.tensor_type.elem_type
                    self.types[one.name] = onnx.helper.make_tensor_type_proto(element, sizes[one.name]).tensor_type
        return found

    def open_input(self, info: onnx.ValueInfoProto, shapes: Mapping[str, Any]) -> None:
        """Define an input with symbolic sizes, as an import does."""
        try:
            shape = input_shape(info, shapes.get(info.name), self.source, [], self.symbols)
            if any(isinstance(size, DimExpr) for size in shape):
                element = dtype_of(info.type.tensor_type.elem_type, info.name)
                op = ParamOp.make(result=tensor(self.symbols.sizes(shape), element), entry=f"stand-in.{info.name}")
                self.block.add_op(op)
                self.values[info.name] = Value(op.result, None, info.name)
        except UserError:  # reported when the model is loaded, or noted already
            return

    def node(self, node: onnx.NodeProto, path: str, opsets: Mapping[str, int], missing: Mapping[str, Any]) -> None:
        """Check one node."""
        inner = {place: what for place, what in missing.items() if place == path or place.startswith(f"{path}/")}
        if not inner and any(name in self.lost for name in node.input):
            self.report.unknown += 1
            self.lost |= {name for name in node.output if name}
            return
        self.report.checked += 1
        for place, (kind, why) in inner.items():
            self.unsupported(place, kind, why, node if place == path else None)
        if not inner:
            try:
                self.convert(node, path, opsets)
            except UserError as error:
                if self.symbols.mended(error, self.source):
                    raise RestartCheck from error
                self.note(path, node.op_type, error, node)
        for name in node.output:
            self.add_placeholder(name)

    def unsupported(self, place: str, kind: str, why: str, node: onnx.NodeProto | None) -> None:
        """Note an op that mlc does not support, with the op of the most similar name."""
        domain, _, name = kind.rpartition(".")
        theirs = all(where != domain for where, _ in converters())  # in an unknown domain, similar names say nothing
        known = [] if theirs else [op for where, op in converters() if where in ("", domain)]
        instead = f"the op {name} of ai.onnx" if domain and ("", name) in converters() else ""
        instead = instead or did_you_mean(name, known).removeprefix("; ")
        instead = instead or "a model function of that name, or mlc.frontends.onnx.register_op"
        message = f"not an op that mlc has{f' ({why})' if why else ''}"
        inputs = self.shapes(node) if node is not None else ()
        self.report.problems.append(ModelProblem(place, kind, message, inputs, instead))

    def note(self, place: str, kind: str, error: UserError, node: onnx.NodeProto | None = None) -> None:
        """Note an error without its place, which has a column of its own; the text after `;` is the remedy."""
        text = (
            str(error).removeprefix(f"{self.source}: ").removeprefix(f"{place} ({kind}): ").removeprefix(f"{place}: ")
        )
        message, _, instead = text.partition("; ")
        inputs = self.shapes(node) if node is not None else ()
        self.report.problems.append(ModelProblem(printable(place), printable(kind), message, inputs, instead))

    def shapes(self, node: onnx.NodeProto) -> tuple[str, ...]:
        """The types of a node's inputs; `?` where unknown."""
        found: list[str] = []
        for name in node.input:
            value = self.values.get(name)
            if value is None or value.items is not None:
                found.append("?")
            else:
                found.append("x".join([*([shape_text(value.shape)] if value.shape else []), value.dtype_name]))
        return tuple(found)

    def add_placeholder(self, name: str) -> None:
        """Define a placeholder of the type that shape inference gives for a name, or note the name as lost."""
        if not name or name in self.values or name in self.missing:
            return
        known = self.types.get(name)
        sizes = [d.dim_value if d.HasField("dim_value") else -1 for d in known.shape.dim] if known is not None else []
        try:
            if known is None or not known.HasField("shape"):
                raise UserError("no shape")
            if any(size < 0 for size in sizes):
                raise UserError("unknown sizes")
            check_sizes(sizes, name)
            op = ParamOp.make(result=tensor(sizes, dtype_of(known.elem_type, name)), entry=f"stand-in.{name}")
        except UserError:
            self.lost.add(name)
            return
        self.block.add_op(op)
        self.values[name] = Value(op.result, None, name)


def check_onnx(
    source: Any, shapes: Mapping[str, Sequence[Any]] | None = None, symbols: Mapping[str, Sequence[int]] | None = None
) -> CheckReport:
    """All problems of an ONNX model; UserError if the file is not a model at all."""
    proto, name, external = read_model(source, mapped=True)
    opsets = check_model(proto, name)
    types, sizes = inferred_types(proto, shapes or {}), InputSymbols(symbols)
    for _ in range(MAX_RESTARTS):
        sizes.begin()
        with suppress(RestartCheck):
            return Checker(name, external, types, sizes).check(proto, opsets, shapes or {})
    raise UserError(f"{name}: expected fewer sizes that must be equal; give the inputs' sizes with shapes=")


def inferred_types(proto: onnx.ModelProto, shapes: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Name -> tensor type by ONNX's shape inference, for inputs of these shapes."""
    light = onnx.ModelProto()
    light.CopyFrom(proto)
    for info in light.graph.input:
        given = shapes.get(info.name)
        if given is not None and all(isinstance(size, int) for size in given):
            del info.type.tensor_type.shape.dim[:]
            for size in given:
                info.type.tensor_type.shape.dim.add().dim_value = size
    try:
        light = onnx.shape_inference.infer_shapes(light)
    except Exception:  # the problems of the model are found node by node
        pass
    graph = light.graph
    return {info.name: info.type.tensor_type for info in (*graph.input, *graph.value_info, *graph.output)}
