"""
The weight store: the entries that `graph.param` ops name, which are arrays, slices of mapped files, or fills.

A store is saved as safetensors (fills stand in its metadata), and loaded without reading the data: each entry is
a view of the mapped file.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import numpy as np

from mlc.support.copies import contiguous
from mlc.support.dtypes import dtype_of
from mlc.support.errors import UserError
from mlc.support.files import open_file

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

_FILLS = "mlc.fills"
_MAX_HEADER = 100 << 20
_SAMPLED = 4
"""Places along each axis, about, from which `content_keys` takes elements."""

# safetensors' name of a dtype <-> numpy's.
_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "BOOL": "bool",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
}  # fmt: skip
_NAMES = {numpy: name for name, numpy in _DTYPES.items()}


Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Entry:
    """One weight. `data` is an array (perhaps a view of a mapped file), or for a fill its one value."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    data: Any
    """An array, or the element of a fill as a numpy scalar, which numpy's types do not join."""
    is_fill: bool = False

    def array(self) -> Array:
        """The weight as an array; that of a fill takes no memory (its strides are 0)."""
        if self.is_fill or not isinstance(self.data, np.ndarray):
            return np.broadcast_to(np.asarray(self.data, self.dtype), self.shape)
        return self.data

    @property
    def nbytes(self) -> int:
        """The bytes that the array has, or would have."""
        return math.prod(self.shape) * self.dtype.itemsize


class WeightStore:
    """Weights by name."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._hashes: dict[str, str] = {}
        self.narrow: dict[str, object] = {}
        """What passes know of entries that are computed from narrower weights; it is not saved."""

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, name: str) -> Entry:
        """The entry of this name."""
        if name not in self._entries:
            raise UserError(f"expected a weight '{name}' in the store, but it has none of that name")
        return self._entries[name]

    def array(self, name: str) -> Array:
        """The weight of this name as an array."""
        return self.entry(name).array()

    def fill(self, name: str) -> Any:
        """The one value of a fill; None for any other entry."""
        entry = self.entry(name)
        return entry.data if entry.is_fill else None

    def add(self, name: str, array: ArrayLike) -> str:
        """Add (or replace) a weight, without a copy; an array with strides of 0 is stored as a fill."""
        array = np.asarray(array)
        if array.size > 1 and not any(array.strides):
            return self.add_fill(name, array.flat[0], array.shape, array.dtype)
        return self._put(name, Entry(array.shape, array.dtype, array))

    def add_fill(self, name: str, value: ArrayLike, shape: Iterable[int], dtype: DTypeLike) -> str:
        """Add a weight that has one value everywhere."""
        dtype = np.dtype(dtype)
        return self._put(name, Entry(tuple(shape), dtype, dtype.type(value), True))

    def _put(self, name: str, entry: Entry) -> str:
        self._entries[name] = entry
        self._hashes.pop(name, None)
        self.narrow.pop(name, None)
        return name

    def fresh(self, name: str) -> str:
        """`name`, or with a number behind it, such that no entry has it."""
        candidate, count = name, 0
        while candidate in self._entries:
            count += 1
            candidate = f"{name}.{count}"
        return candidate

    def remove(self, name: str) -> None:
        """Forget a weight."""
        del self._entries[name]
        self._hashes.pop(name, None)
        self.narrow.pop(name, None)

    def hash(self, name: str) -> str:
        """The hash of an entry's content: shape, dtype and bytes; computed once."""
        if name not in self._hashes:
            entry = self.entry(name)
            digest = hashlib.sha256()
            digest.update(repr((entry.shape, entry.dtype.name, entry.is_fill)).encode())
            data = contiguous(np.asarray(entry.data, entry.dtype))
            digest.update(data.reshape(-1).view(np.uint8).data)
            self._hashes[name] = digest.hexdigest()
        return self._hashes[name]

    def content_keys(self) -> dict[str, Hashable]:
        """A key of each entry, equal where the content is; only entries that look alike are hashed."""
        samples = {name: _sample(entry) for name, entry in self._entries.items()}
        count = Counter(samples.values())
        return {name: (one, self.hash(name)) if count[one] > 1 else one for name, one in samples.items()}

    def save(self, path: str | Path) -> None:
        """Write all entries as safetensors; fills go into its metadata."""
        fills = {
            name: {"dtype": _NAMES[e.dtype.name], "shape": e.shape, "value": np.asarray(e.data).tobytes().hex()}
            for name, e in self._entries.items()
            if e.is_fill
        }
        stored = {name: e for name, e in self._entries.items() if not e.is_fill}
        header: dict[str, Any] = {"__metadata__": {_FILLS: json.dumps(fills)}} if fills else {}
        offset = 0
        for name, entry in stored.items():
            ends = [offset, offset + entry.nbytes]
            header[name] = {"dtype": _NAMES[entry.dtype.name], "shape": entry.shape, "data_offsets": ends}
            offset = ends[1]
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        _write(Path(path), [len(text).to_bytes(8, "little"), text, *(e.data for e in stored.values())])

    @staticmethod
    def load(path: str | Path) -> WeightStore:
        """Map a safetensors file; nothing but its header is read."""
        path = Path(path)
        header, start = _read_header(path, 0)
        metadata = header.pop("__metadata__", {})
        data = np.memmap(path, np.uint8, "r", start) if path.stat().st_size > start else np.zeros(0, np.uint8)
        store = WeightStore()
        for name, record in header.items():
            store.add(name, _slice(path, name, record, data, *_offsets(path, name, record)))
        for name, record in _fills(path, metadata).items():
            dtype, shape = _shape(path, name, record)
            store.add_fill(name, _fill_value(path, name, record, dtype), shape, dtype)
        return store


def _sample(entry: Entry) -> tuple[object, ...]:
    """Shape, dtype and some elements of an entry."""
    if entry.is_fill:
        return entry.shape, entry.dtype.name, True, np.asarray(entry.data, entry.dtype).tobytes()
    some = entry.data[tuple(slice(None, None, max(1, size // _SAMPLED)) for size in entry.shape)]
    return entry.shape, entry.dtype.name, False, some.tobytes()


def _are_records(value: object) -> TypeGuard[dict[str, dict[str, Any]]]:
    """Whether a JSON value is an object of objects."""
    return isinstance(value, dict) and all(
        isinstance(record, dict) for record in cast("dict[object, object]", value).values()
    )


def _are_ints(value: object) -> TypeGuard[list[int]]:
    """Whether a JSON value is a list of whole numbers."""
    return isinstance(value, list) and all(isinstance(n, int) for n in cast("list[object]", value))


def _read_header(path: Path, at: int) -> tuple[dict[str, Any], int]:
    """The JSON header behind its 8-byte length, and where the data starts."""
    with open_file(path) as file:
        size = path.stat().st_size
        file.seek(at)
        length = int.from_bytes(file.read(8), "little")
        if length > min(size - at - 8, _MAX_HEADER):
            raise UserError(f"{path}: expected a header of at most {size - at - 8} bytes, but got a length of {length}")
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}: the header is not JSON: {error}") from error
    if not _are_records(header):
        raise UserError(f"{path}: expected a header that maps names to records")
    return header, at + 8 + length


def _fills(path: Path, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The records of fills, which stand in the metadata as JSON."""
    try:
        fills = json.loads(metadata.get(_FILLS, "{}"))
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{path}: the records of fills are not JSON: {error}") from error
    if not _are_records(fills):
        raise UserError(f"{path}: expected records of fills by name")
    return fills


def _fill_value(path: Path, name: str, record: Mapping[str, Any], dtype: np.dtype[Any]) -> np.generic:
    """The one value of a fill."""
    try:
        data = bytes.fromhex(record["value"])
    except (KeyError, TypeError, ValueError):
        data = b""
    if len(data) != dtype.itemsize:
        raise UserError(f"{path}: expected {dtype.itemsize} bytes in hexadecimal for the fill '{name}'")
    return np.frombuffer(data, dtype)[0]


def _shape(path: Path, name: str, record: Mapping[str, Any]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    dtype, shape = record.get("dtype"), record.get("shape")
    if dtype not in _DTYPES:
        raise UserError(f"{path}: expected a dtype among {', '.join(_DTYPES)} for '{name}', but got {dtype}")
    if not _are_ints(shape) or not all(s >= 0 for s in shape) or len(shape) > 32:
        raise UserError(f"{path}: expected a shape of at most 32 sizes >= 0 for '{name}', but got {shape}")
    return dtype_of(_DTYPES[dtype]), tuple(shape)


def _offsets(path: Path, name: str, record: Mapping[str, Any]) -> tuple[int, int]:
    offsets = record.get("data_offsets")
    if not _are_ints(offsets) or len(offsets) != 2:
        raise UserError(f"{path}: expected two data_offsets for '{name}', but got {offsets}")
    return offsets[0], offsets[1]


def _slice(path: Path, name: str, record: Mapping[str, Any], data: Array, begin: int, end: int) -> Array:
    dtype, shape = _shape(path, name, record)
    if not 0 <= begin <= end <= data.size or end - begin != math.prod(shape) * dtype.itemsize:
        raise UserError(
            f"{path}: expected {math.prod(shape) * dtype.itemsize} bytes for '{name}' inside the file, "
            f"but got {begin}..{end} of {data.size}"
        )
    return np.frombuffer(data, dtype, math.prod(shape), begin).reshape(shape) if end > begin else np.zeros(shape, dtype)


def _write(path: Path, parts: Iterable[bytes | Array | np.generic]) -> None:
    """Write a file as a whole, or not at all."""
    temporary = path.with_name(path.name + ".part")
    try:
        with temporary.open("wb") as file:
            for part in parts:
                file.write(part if isinstance(part, bytes) else contiguous(np.asarray(part)).view(np.uint8).data)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(f"{path}: {error.strerror}") from error
