"""
Integers of 4 and 2 bits, which an import holds as one byte each.

A value remembers the type that the model gave it: it says what QuantizeLinear saturates to, and what the default zero
point of GatherBlockQuantized is. Only ops of which the results are right for bytes may read such values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from mlc.frontends.onnx.files import NARROW, tensor_array

if TYPE_CHECKING:
    from mlc.frontends.onnx.node import Node, Value

MOVES = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Ops whose results are of the type of their first input."""
READS = frozenset({"Cast", "DequantizeLinear", "GatherBlockQuantized", "QuantizeLinear", "Shape", "Size"})
"""Ops that read such integers, and give other types."""


@dataclass(frozen=True)
class Narrow:
    """An integer type of less than 8 bits: its ONNX name, and the bytes that hold one element each."""

    name: str
    dtype: Any
    low: int
    high: int


def narrow_type(element: int) -> Narrow | None:
    """The narrow type of a TensorProto element type; None of any other."""
    if element not in NARROW:
        return None
    bits, signed = NARROW[element]
    low = -(1 << (bits - 1)) if signed else 0
    name, dtype = onnx.TensorProto.DataType.Name(element), np.dtype(np.int8 if signed else np.uint8)
    return Narrow(name, dtype, low, low + (1 << bits) - 1)


def initializer(tensor: onnx.TensorProto, place: str, directory: Path | None) -> Value:
    """The value of an initializer; UserError where it is malformed."""
    from mlc.frontends.onnx.node import Value

    array = tensor_array(tensor, place, directory)
    return Value(None, array, tensor.name, narrow=narrow_type(tensor.data_type))


def result_type(node: Node) -> Narrow | None:
    """The narrow type of a node's results; UserError where its op cannot read narrow integers."""
    kind, given = node.proto.op_type, [v.narrow if v is not None else None for v in node.inputs]
    if kind in ("Constant", "ConstantOfShape"):
        return next((narrow_type(a.t.data_type) for a in node.proto.attribute if a.name == "value"), None)
    if kind == "QuantizeLinear":
        zero = given[2] if len(given) > 2 else None
        return zero if node.has(2) else narrow_type(node.attr("output_dtype", 0))
    if (first := next((one for one in given if one is not None), None)) is None or kind in READS:
        return None
    if kind not in MOVES:
        raise node.fail(f"expected an input of at least 8 bits, but got {first.name}; add a Cast to INT8 before it")
    return given[0]


def marked_as(results: Value | Sequence[Value | None], narrow: Narrow | None) -> Value | Sequence[Value | None]:
    """The results of a node, of a narrow type where it is one."""
    from mlc.frontends.onnx.node import Value

    if narrow is None:
        return results
    values = [results] if isinstance(results, Value) else results
    return [None if value is None else replace(value, narrow=narrow) for value in values]
