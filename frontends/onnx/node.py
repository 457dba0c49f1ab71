"""One ONNX node during its conversion, its values, and the table of converters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph import CastOp, shape_of
from mlc.dialects.graph.dims import DimExpr
from mlc.dialects.graph.types import dtype_name, element_of
from mlc.frontends.onnx.counted import Count
from mlc.frontends.onnx.files import printable, tensor_array
from mlc.frontends.onnx.narrow import Narrow
from mlc.support.errors import UserError

if TYPE_CHECKING:
    from mlc.frontends.onnx.importer import Importer


@dataclass(eq=False)
class Value:
    """
    A tensor during import: an SSA value, a constant array, or (once an op used the constant) both.

    A bound value is computed by the model, and its array is what it computes for the inputs at hand.
    """

    ssa: SSAValue | None
    array: Any
    name: str
    bound: bool = False
    items: tuple[Value, ...] | None = None
    """The tensors of a sequence, which is nothing else."""
    absent: bool = False
    """Whether this is an optional that holds nothing."""
    wide: Value | None = None
    """Of probabilities rounded to f16 or bf16: the same in f32."""
    span: tuple[Any, Any] | None = None
    """Of a small value: arrays that no element is less, or more, than."""
    counted: Count | None = None
    """Of a value of which only a part is there: which."""
    made: bool = False
    """Whether it is computed from constants alone."""
    narrow: Narrow | None = None
    """Of integers of 4 or 2 bits, each in a byte: their type."""

    @property
    def known(self) -> Any:
        """The array of a constant."""
        if self.array is None:
            kind = "an optional that is absent" if self.absent else "a sequence"
            raise ValueError(f"expected a tensor, but '{self.name}' is {kind}")
        return self.array

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes."""
        return self.known.shape if self.ssa is None else shape_of(self.ssa.type)

    @property
    def dtype(self) -> Any:
        """The element type, as a numpy dtype or an xDSL type."""
        return self.known.dtype if self.ssa is None else element_of(self.ssa)

    @property
    def dtype_name(self) -> str:
        """numpy's name of the element type."""
        if self.ssa is None:
            return "int64" if self.known.dtype == object else self.known.dtype.name
        return dtype_name(element_of(self.ssa))


Converter: TypeAlias = "Callable[[Node], Value | Sequence[Value]]"


OWN_OPSET = 13
"""Ops of other domains that are as ONNX's are so as of this opset at least."""


class NeedsValues(UserError):
    """An op must know a value that depends on `inputs`, the names of inputs of the model."""

    def __init__(self, message: str, inputs: set[str]):
        super().__init__(message)
        self.inputs = inputs


class UseBody(Exception):
    """A converter leaves this node to the function body of its op."""


class Node:
    """One ONNX node during its conversion: its inputs and attributes, and the means to emit graph ops."""

    def __init__(
        self,
        importer: Importer,
        proto: onnx.NodeProto,
        path: str,
        inputs: list[Value | None],
        opsets: Mapping[str, int],
    ):
        self.importer = importer
        self.proto = proto
        self.path = path
        self.inputs = inputs
        self.opsets = opsets
        self.opset = opsets.get(plain_domain(proto), 1)
        self._attributes = {attribute.name: attribute for attribute in proto.attribute}

    def standard(self, kind: str, *inputs: Value | None) -> Any:
        """What an op of ONNX's own makes of inputs, with this node's attributes."""
        proto = onnx.NodeProto()
        proto.CopyFrom(self.proto)
        proto.op_type, proto.domain = kind, ""
        opsets = {**self.opsets, "": max(self.opsets.get("", 1), OWN_OPSET)}
        return converters()["", kind](Node(self.importer, proto, self.path, list(inputs), opsets))

    def check_attributes(self) -> None:
        """Check the attributes' types against ONNX's own schema of the op, where it has one."""
        domain, kind = op_key(self.proto)
        if domain or not onnx.defs.has(kind):
            return
        try:
            schema = onnx.defs.get_schema(kind, self.opset).attributes
        except onnx.defs.SchemaError:
            raise self.fail(f"expected an op of opset {self.opset}, but it has no {kind}") from None
        for name, attribute in schema.items():
            if attribute.required and name not in self._attributes:
                raise self.fail(f"expected an attribute {name}, but got none")
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
        return UserError(f"{self.importer.source}: {self.path} ({printable(self.proto.op_type)}): {one_line(message)}")

    def has(self, index: int) -> bool:
        """Whether input `index` is given."""
        value = self.inputs[index] if index < len(self.inputs) else None
        return value is not None and not value.absent

    def input(self, index: int) -> Value:
        """Input `index`, which must be given."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise self.fail(f"expected at least {index + 1} inputs, but got {len(self.inputs)}")
        return value

    def constant(self, index: int) -> Any:
        """Input `index` as an array; it must be known at import."""
        value = self.input(index)
        return self.known(value, f"input {index} ('{value.name}')")

    def known(self, value: Value, what: str) -> Any:
        """A value as an array; it must be known at import."""
        if self.importer.computed(value) is None:
            if reason := self.importer.why_unknown(value):
                raise self.fail(f"{reason}; give their ranges with symbols=, or the inputs' sizes with shapes=")
            error = self.fail(f"expected {what} to be constant, but it depends on the model's input")
            raise NeedsValues(str(error), self.importer.sources(value)) from None
        return value.array

    def ints(self, index: int, name: str | None = None, default: Any = None) -> Any:
        """Integers from an attribute `name`, else from input `index`."""
        if name is not None and name in self._attributes:
            return list(self.attr(name))
        if not self.has(index):
            return default
        return [v if isinstance(v, DimExpr) else int(v) for v in self.constant(index).reshape(-1).tolist()]

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
        if array.dtype == object and not any(isinstance(v, DimExpr) for v in array.reshape(-1)):
            array = array.astype(np.int64)
        if array.dtype == object and like is not None and np.dtype(dtype_like(like)) != np.int64:
            return self.emit(CastOp, self.array(array), dtype=np.dtype(dtype_like(like)))
        if array.dtype != object and like is not None:
            array = array.astype(dtype_like(like))
        return Value(None, array, self.importer.fresh(self.path))


def ancestors(value: SSAValue | None, captures: Mapping[SSAValue, SSAValue]) -> Iterator[SSAValue]:
    """A value, and all that it is computed from; `captures` says what arguments of regions stand for."""
    seen: set[SSAValue] = set()
    left = [] if value is None else [value]
    while left:
        one = left.pop()
        if one not in seen:
            seen.add(one)
            yield one
            if one in captures:
                left.append(captures[one])
            elif not isinstance(one.owner, Block):
                left.extend(one.owner.operands)


def dtype_like(value: Value) -> Any:
    """The numpy dtype of a value's elements."""
    from mlc.dialects.graph.types import numpy_dtype

    return value.known.dtype if value.ssa is None else numpy_dtype(value.dtype)


def node_path(node: onnx.NodeProto, index: int) -> str:
    """What messages and locations call a node: its name, else type and index."""
    return printable(node.name or f"{node.op_type}_{index}")


def one_line(message: str) -> str:
    """A message without line breaks: those of libraries have them."""
    return " ".join(message.split()) if "\n" in message else message


def plain_domain(node: onnx.NodeProto | onnx.FunctionProto) -> str:
    """The domain of a node or function, `ai.onnx` by its other name."""
    return "" if node.domain == "ai.onnx" else node.domain


def op_key(node: onnx.NodeProto) -> tuple[str, str]:
    """What converters and functions are found by: (domain, op type)."""
    return plain_domain(node), node.op_type


CUSTOM: dict[tuple[str, str], Converter] = {}
"""What this program taught the import, by (domain, op type)."""


def register_op(name: str, converter: Converter, domain: str = "") -> None:
    """
    Teach the import an op: `converter` turns a Node into the Value (or Values) of its results.

    `register_op("Twice", lambda node: node.emit(g.AddOp, node.input(0), node.input(0)), domain="my.ops")`
    """
    if not name or not callable(converter):
        raise UserError(f"expected the op's name and a function, but got {name!r} and {converter!r}")
    CUSTOM[domain if domain != "ai.onnx" else "", name] = converter


def find_converter(key: tuple[str, str]) -> Converter | None:
    """What converts an op: the program's own converter before mlc's."""
    return CUSTOM.get(key) or converters().get(key)


@cache
def converters() -> dict[tuple[str, str], Converter]:
    """(domain, op type) -> what converts a node of it."""
    from mlc.frontends.onnx.ops import (
        computed,
        control,
        einsum,
        indexing,
        legacy,
        microsoft,
        nn,
        pooling,
        quantized,
        recurrent,
        resize,
        sampling,
        selection,
        sequences,
        shape,
        signal,
        special,
    )
    from mlc.frontends.onnx.ops import math as math_ops

    modules = (
        math_ops, nn, pooling, resize, shape, indexing, quantized, recurrent, control, einsum, sampling, signal,
        special, sequences, selection, computed,
    )  # fmt: skip
    newest = {name: function for module in modules for name, function in module.CONVERTERS.items()}
    own = {("", name): function for name, function in legacy.dated(newest).items()}
    theirs = {(microsoft.DOMAIN, name): function for name, function in microsoft.CONVERTERS.items()}
    return own | theirs | {("", name): function for name, function in microsoft.SIMPLIFIED.items()}
