"""
Integers of 4 and 2 bits, which an import holds one to a byte.

A value keeps its declared type, by which QuantizeLinear saturates and GatherBlockQuantized chooses its default zero
point. Only ops whose results are correct on the bytes may read such values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import onnx

from mlc.frontends.common.values import NarrowInteger, Value
from mlc.frontends.onnx.external import ExternalData
from mlc.frontends.onnx.files import NARROW_INTEGERS, tensor_array

if TYPE_CHECKING:
    from mlc.frontends.onnx.node import Node, Result

KEEP_NARROW = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Ops whose results have the narrow type of their first input."""
READ_NARROW = frozenset({"Cast", "DequantizeLinear", "GatherBlockQuantized", "QuantizeLinear", "Shape", "Size"})
"""Ops that read narrow integers and have results of other types."""


def narrow_type(element: int) -> NarrowInteger | None:
    """The narrow type of a TensorProto element type; None of any other."""
    if element not in NARROW_INTEGERS:
        return None
    bits, signed = NARROW_INTEGERS[element]
    low = -(1 << (bits - 1)) if signed else 0
    name, dtype = onnx.TensorProto.DataType.Name(element), np.dtype(np.int8 if signed else np.uint8)
    return NarrowInteger(name, dtype, low, low + (1 << bits) - 1)


def initializer(tensor: onnx.TensorProto, place: str, external: ExternalData) -> Value:
    """The value of an initializer; UserError where it is malformed."""
    array = tensor_array(tensor, place, external)
    return Value(None, array, tensor.name, narrow=narrow_type(tensor.data_type))


def result_type(node: Node) -> NarrowInteger | None:
    """The narrow type of a node's results; UserError where its op cannot read narrow integers."""
    kind, given = node.kind, [v.narrow if v is not None else None for v in node.inputs]
    if kind in ("Constant", "ConstantOfShape"):
        return next((narrow_type(a.t.data_type) for a in node.proto.attribute if a.name == "value"), None)
    if kind == "QuantizeLinear":
        zero = given[2] if len(given) > 2 else None
        return zero if node.has(2) else narrow_type(node.attr("output_dtype", 0))
    if (first := next((one for one in given if one is not None), None)) is None or kind in READ_NARROW:
        return None
    if kind not in KEEP_NARROW:
        raise node.fail(f"expected an input of at least 8 bits, but got {first.name}; add a Cast to INT8 before it")
    return given[0]


def marked_as(results: Result, narrow: NarrowInteger | None) -> Result:
    """The results of a node, marked as being of a narrow type; unchanged for None."""
    if narrow is None:
        return results
    values = [results] if isinstance(results, Value) else results
    return [None if value is None else replace(value, narrow=narrow) for value in values]
