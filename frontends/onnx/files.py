"""Reading ONNX files and their tensors. A model file is data: sizes are checked before anything is read by them."""

from __future__ import annotations

import math
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from mlc.dialects.graph.types import ELEMENT_TYPES
from mlc.frontends.common.sizes import check_sizes
from mlc.frontends.common.values import Array
from mlc.frontends.onnx.external import ExternalData, check_raw_size
from mlc.frontends.onnx.wire import without_raw_data
from mlc.support.errors import UserError
from mlc.support.files import map_file
from mlc.support.limits import limits

DType: TypeAlias = "np.dtype[Any]"
ModelSource: TypeAlias = "str | os.PathLike[str] | onnx.ModelProto"
MAX_MODEL_BYTES = (1 << 31) - 1
"""Bytes of the largest model file that protobuf reads; larger weights are external data."""
MAPPED_BYTES = 1 << 24
"""Bytes from which a model file is worth the walk that leaves raw data in it: protobuf copies 16 MB in some 10 ms."""


NARROW_INTEGERS = {
    number: (4 if name.endswith("4") else 2, name.startswith("INT"))
    for name, number in onnx.TensorProto.DataType.items()
    if name in ("INT4", "UINT4", "INT2", "UINT2")
}
"""Element type -> (bits, whether it is signed) of the integers that are packed into bytes."""


def read_model(source: ModelSource, mapped: bool = False) -> tuple[onnx.ModelProto, str, ExternalData]:
    """
    The model of a file or a ModelProto, a name for messages, and where its external data lies.

    `mapped` leaves the raw data of large tensors in the file, which must not change as long as the tensors are used.
    """
    if isinstance(source, onnx.ModelProto):
        return source, source.graph.name or "<model>", ExternalData()
    path = Path(source)
    content = map_file(path, MAX_MODEL_BYTES)
    external = ExternalData(path.parent, content, secrets.token_hex())
    data: Any = without_raw_data(content, external.location) if mapped and len(content) >= MAPPED_BYTES else None
    if data is None:
        data, external = content, ExternalData(path.parent)
    try:
        model = onnx.ModelProto.FromString(data)  # which reads any contiguous bytes, though its stubs do not say so
    except DecodeError as error:
        raise UserError(f"{path}: not an ONNX model: {error}") from error
    return model, str(path), external


def check_model(model: onnx.ModelProto, source: str) -> dict[str, int]:
    """The opset version of each domain; UserError for what is not a model."""
    if not model.opset_import or not model.HasField("graph"):
        raise UserError(f"{source}: not an ONNX model: it has no {'graph' if model.opset_import else 'opset_import'}")
    if (count := len(model.graph.node)) > limits.ops:
        raise UserError(
            f"{source}: expected at most {limits.ops} nodes, but got {count}; raise the limit with --max-ops"
        )
    if not all(isinstance(text, str) for text in _texts(model)):
        raise UserError(f"{source}: not an ONNX model: a name in it is not UTF-8")
    if not model.graph.output:
        raise UserError(f"{source}: expected a graph with outputs, but it has none")
    for what, items in (("input", model.graph.input), ("initializer", model.graph.initializer)):
        if twice := [name for name, count in Counter(item.name for item in items).items() if count > 1]:
            raise UserError(f"{source}: expected a name for each {what}, but '{printable(twice[0])}' stands for two")
    if model.graph.sparse_initializer:
        name = model.graph.sparse_initializer[0].values.name
        raise UserError(f"{source}: expected dense initializers, but '{printable(name)}' is sparse")
    opsets = {opset.domain if opset.domain != "ai.onnx" else "": opset.version for opset in model.opset_import}
    newest = onnx.defs.onnx_opset_version()
    if not 1 <= opsets.get("", 1) <= newest:
        raise UserError(f"{source}: expected an opset of 1 to {newest} (onnx {onnx.__version__}), but got {opsets['']}")
    if any(not 0 <= version < 1 << 31 for version in opsets.values()):
        raise UserError(f"{source}: expected opset versions below 2^31, but got {max(opsets.values(), key=abs)}")
    return opsets


def printable(name: str) -> str:
    """A name from a file, with control characters escaped, so that messages can show it."""
    return name if name.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


def _texts(model: onnx.ModelProto) -> Iterator[Any]:
    """Every name that an import reads; protobuf returns those that are not UTF-8 as bytes."""
    for opset in model.opset_import:
        yield opset.domain
    yield from _graph_texts(model.graph)
    for function in model.functions:
        yield from (function.domain, function.name, *function.input, *function.output)
        yield from _node_texts(function.node)


def _graph_texts(graph: onnx.GraphProto) -> Iterator[Any]:
    yield from _node_texts(graph.node)
    for info in (*graph.input, *graph.output):
        yield info.name
        yield from (dim.dim_param for dim in info.type.tensor_type.shape.dim)
    for tensor in graph.initializer:
        yield tensor.name
        for entry in tensor.external_data:
            yield from (entry.key, entry.value)


def _node_texts(nodes: Iterable[onnx.NodeProto]) -> Iterator[Any]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield from (attribute.name, attribute.ref_attr_name)
            if attribute.HasField("g"):
                yield from _graph_texts(attribute.g)


def dtype_of(elem_type: int, place: str) -> Any:
    """The numpy dtype of a TensorProto element type."""
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))
    except (KeyError, ValueError, TypeError):
        dtype = None
    if dtype is None or dtype.name not in ELEMENT_TYPES or elem_type == onnx.TensorProto.STRING:
        known = (
            onnx.TensorProto.DataType.Name(elem_type) if elem_type in onnx.TensorProto.DataType.values() else elem_type
        )
        raise UserError(f"{place}: expected elements of {', '.join(ELEMENT_TYPES)}, but got {known}")
    return dtype


def tensor_array(tensor: onnx.TensorProto, place: str, external: ExternalData) -> Any:
    """The array of a tensor; raw bytes are not copied. Integers of less than 8 bits are unpacked, one to a byte."""
    bits, signed = NARROW_INTEGERS.get(tensor.data_type, (0, False))
    dtype = np.dtype(np.uint8) if bits else dtype_of(tensor.data_type, place)
    shape = tuple(tensor.dims)
    if len(shape) > limits.rank or any(size < 0 for size in shape):
        raise UserError(f"{place}: expected at most {limits.rank} dims, each >= 0, but got {list(shape)}")
    check_sizes(shape, place)
    count = math.prod(shape)
    if bits:
        packed = _stored(tensor, place, external, dtype, (-(-count * bits // 8),))
        return _unpacked(packed, bits, signed, count).reshape(shape)
    return _stored(tensor, place, external, dtype, shape)


def _stored(
    tensor: onnx.TensorProto, place: str, external: ExternalData, dtype: DType, shape: tuple[int, ...]
) -> Array:
    """The elements of a dtype that a tensor stores."""
    count = math.prod(shape)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return external.array(tensor, place, count * dtype.itemsize).view(dtype).reshape(shape)
    if tensor.HasField("raw_data"):
        raw = tensor.raw_data
        check_raw_size(tensor, place, count * dtype.itemsize, len(raw))
        return np.frombuffer(raw, dtype).reshape(shape)
    return _typed_data(tensor, place, dtype, count).reshape(shape)


def _typed_data(tensor: onnx.TensorProto, place: str, dtype: DType, count: int) -> Array:
    """The values of the field (float_data, int32_data, ..) that holds a dtype's elements."""
    fields = {
        "float32": "float_data", "float64": "double_data", "int64": "int64_data",
        "uint64": "uint64_data", "uint32": "uint64_data",
    }  # fmt: skip
    values = getattr(tensor, fields.get(dtype.name, "int32_data"))
    if len(values) != count:
        what = "packed values" if tensor.data_type in NARROW_INTEGERS else "values"
        raise UserError(f"{place}: expected {count} {what} for {list(tensor.dims)}, but got {len(values)}")
    if dtype.name in ("float16", "bfloat16"):
        return np.array(values, np.uint16).view(dtype)
    return np.array(values).astype(dtype)


def unpack(packed: Array, bits: int) -> Array:
    """Packed bytes unpacked along the last axis to unsigned numbers of `bits` bits, the lowest bits first."""
    count = 8 // bits
    apart = packed[..., None] >> np.arange(0, 8, bits, dtype=np.uint8) & np.uint8((1 << bits) - 1)
    return apart.reshape(*packed.shape[:-1], packed.shape[-1] * count)


def _unpacked(packed: Array, bits: int, signed: bool, count: int) -> Array:
    """`count` numbers of `bits` bits, one to a byte."""
    numbers = unpack(packed, bits)[:count]
    sign = np.uint8(1 << (bits - 1))
    return (numbers ^ sign).view(np.int8) - np.int8(sign) if signed else numbers
