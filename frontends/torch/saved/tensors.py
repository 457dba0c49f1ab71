"""The weights and constants of a .pt2 file, mapped into memory as they lie in it."""

from __future__ import annotations

import math
import re
from typing import Any

import torch
from torch._export.serde.serialize import (
    _SERIALIZE_TO_TORCH_DTYPE,  # pyright: ignore[reportPrivateUsage] torch has no public table of them
)

from mlc.frontends.common.untyped import is_sequence, is_table
from mlc.frontends.torch.saved.archive import Archive
from mlc.support.limits import limits

_FILE = re.compile(r"\w+")


def tensors_of(archive: Archive, program: str, kind: str) -> dict[str, torch.Tensor]:
    """
    The tensors of a program by their names; `kind` is "weights" or "constants".

    They share one private mapping of the file: what is written to them stays in memory.
    """
    config = archive.json(f"data/{kind}/{program}_{kind}_config.json")
    entries = config.get("config") if is_table(config) else None
    if not is_table(entries):
        raise archive.fail(f"expected a table of the {kind}")
    if not entries:
        return {}
    mapped = torch.from_file(str(archive.path), shared=False, size=archive.bytes, dtype=torch.uint8)
    return {str(name): _tensor(archive, mapped, kind, str(name), entry) for name, entry in entries.items()}


def _tensor(archive: Archive, mapped: torch.Tensor, kind: str, name: str, entry: Any) -> torch.Tensor:
    if not is_table(entry) or entry.get("use_pickle") is not False:
        raise archive.fail(f"expected '{name}' to be a plain tensor, but it is a pickled object, which mlc never loads")
    meta, file = entry.get("tensor_meta"), entry.get("path_name")
    if not is_table(meta) or not isinstance(file, str) or not _FILE.fullmatch(file):
        raise archive.fail(f"expected the type and the record of '{name}'")
    dtype = _dtype(archive, name, meta)
    sizes, strides = _numbers(archive, name, meta.get("sizes")), _numbers(archive, name, meta.get("strides"))
    (offset,) = _numbers(archive, name, [meta.get("storage_offset")])
    start, count = archive.place(f"data/{kind}/{file}")
    elements = math.prod(sizes)
    end = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=False)) + 1
    if len(sizes) != len(strides) or elements > limits.tensor_elements or (elements and end * dtype.itemsize > count):
        raise archive.fail(f"'{name}': expected a shape that fits {count} bytes, but got {sizes} by strides {strides}")
    data = mapped[start : start + count - count % dtype.itemsize]
    data = (data if data.data_ptr() % dtype.itemsize == 0 else data.clone()).view(dtype)
    tensor = data.as_strided(sizes, strides, data.storage_offset() + offset) if elements else data.new_empty(sizes)
    if entry.get("is_param") is not True:
        return tensor
    trained = meta.get("requires_grad") is True and dtype.is_floating_point
    return torch.nn.Parameter(tensor, requires_grad=trained)


def _dtype(archive: Archive, name: str, meta: dict[str, Any]) -> torch.dtype:
    device, kind = meta.get("device"), meta.get("dtype")
    if not is_table(device) or device.get("type") != "cpu":
        raise archive.fail(f"expected tensors on the CPU, but '{name}' is not; move the module before its export")
    dtype = _SERIALIZE_TO_TORCH_DTYPE.get(kind) if isinstance(kind, int) else None  # pyright: ignore[reportArgumentType] torch declares its enum as the key
    if dtype is None:
        raise archive.fail(f"expected an element type of torch for '{name}', but got {kind}")
    return dtype


def _numbers(archive: Archive, name: str, values: Any) -> list[int]:
    """Sizes, strides, or the offset of a tensor: numbers from 0 on."""
    found = [one.get("as_int") if is_table(one) else None for one in values] if is_sequence(values) else []
    numbers = [one for one in found if type(one) is int and 0 <= one < 1 << 63]
    if not is_sequence(values) or len(numbers) != len(values) or len(numbers) > limits.rank:
        raise archive.fail(f"'{name}': expected sizes and strides that are numbers from 0 on")
    return numbers


__all__ = ["tensors_of"]
