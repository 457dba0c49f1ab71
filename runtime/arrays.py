"""The arrays of a call: where their elements lie, which need no conversion, and what is refused."""

import ctypes
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeGuard

import numpy as np

from mlc.support.alignment import ALIGNMENT

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of a model."""

    name: str
    shape: Any  # a tuple, save where the rank is open: who knows the model's rank reads it as one
    """A tuple of integers, with the text of an expression where a size is symbolic; None where the rank is open."""
    dtype: str
    """numpy's name of the element type."""

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.name}: any shape {self.dtype}"
        if any(isinstance(size, str) for size in self.shape):
            return f"{self.name}: ({', '.join(map(str, self.shape))}) {self.dtype}"
        return f"{self.name}: {'x'.join(map(str, self.shape)) or 'scalar'} {self.dtype}"


def aligned(size: int) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """`size` bytes of memory that start at a multiple of `ALIGNMENT`."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -address_of(raw) % ALIGNMENT
    return raw[start : start + size]


def _address_in_dict(array: Array) -> int:
    return array.__array_interface__["data"][0]


_DATA_POINTER_OFFSET = object.__basicsize__
"""Offset in bytes of an array object's data pointer: behind the object's head, as numpy's C interface fixes it."""
_word_at = ctypes.c_size_t.from_address


def _address_in_object(array: Array) -> int:
    return _word_at(id(array) + _DATA_POINTER_OFFSET).value


def _finds_addresses() -> bool:
    """Whether reading the data pointer from the array object works in this Python; the read itself is always safe."""
    if sys.implementation.name != "cpython":
        return False
    arrays = [np.empty(shape) for shape in (1, (3, 5), (2, 0))] + [np.arange(9)[2:]]
    return all(_address_in_object(a) == _address_in_dict(a) for a in arrays)


# A tenth of the time of `__array_interface__`, which builds a dictionary at each call.
address_of = _address_in_object if _finds_addresses() else _address_in_dict
"""The address of the elements of a numpy array (subclasses included)."""


def is_ready(array: object, dtype: "np.dtype[Any]", shape: tuple[int, ...]) -> TypeGuard[Array]:
    """Whether an argument needs no conversion: an array of this dtype and shape, contiguous and aligned."""
    return type(array) is np.ndarray and array.dtype is dtype and array.shape == shape and array.flags.carray


def as_array(what: str, value: object) -> Array:
    """A value as an array: one that exports its memory by DLPack is not copied. ValueError if it lies on a device."""
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        from mlc.runtime.dlpack import from_dlpack

        return from_dlpack(what, value)
    return np.asarray(value)


def check_names(inputs: Mapping[str, Any], specs: "Sequence[TensorSpec]") -> None:
    """ValueError unless `inputs` has exactly the names of the specs."""
    if not isinstance(inputs, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
        raise ValueError(f"expected inputs as a dict of name -> array, but got {type(inputs).__name__}")
    known = [spec.name for spec in specs]
    for name in inputs:
        if name not in known:
            raise ValueError(f"expected inputs {', '.join(known)}, but got an unknown input '{name}'")
    for name in known:
        if name not in inputs:
            raise ValueError(f"expected inputs {', '.join(known)}, but input '{name}' is missing")


def check_out(out: Mapping[str, Any], known: Sequence[str]) -> None:
    """ValueError unless `out`, the arrays to write outputs into, is a mapping whose names are among the known ones."""
    if not isinstance(out, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
        raise ValueError(f"expected out as a dict of name -> array, but got {type(out).__name__}")
    for name in out:
        if name not in known:
            raise ValueError(f"expected outputs {', '.join(known)}, but got an unknown output '{name}'")


def pointers(inputs: Sequence[Array], outputs: Sequence[Array]) -> dict[str, list[int]]:
    """The addresses of inputs and outputs by kind, as the stepper's nodes refer to them."""
    return {"input": [address_of(a) for a in inputs], "output": [address_of(a) for a in outputs]}


@cache
def _name_of(dtype: "np.dtype[Any]") -> str:
    """numpy's name of an element type, which numpy puts together again at each look."""
    return dtype.name


def check_array(what: str, array: object, spec: TensorSpec) -> None:
    """ValueError if an array has another shape or dtype, or is not aligned to its element."""
    if not isinstance(array, np.ndarray):
        raise ValueError(f"expected {what} to be an array, but got {type(array).__name__}")
    if array.shape != spec.shape:
        raise ValueError(f"expected {what} of shape {spec.shape}, but got {array.shape}")
    if _name_of(array.dtype) != spec.dtype or not array.dtype.isnative:
        raise ValueError(f"expected {what} of dtype {spec.dtype}, but got {array.dtype}; convert it with astype")
    if array.flags.c_contiguous and not array.flags.aligned:
        raise ValueError(
            f"expected {what} at a multiple of {array.dtype.alignment} bytes, "
            f"but got address {address_of(array):#x}; pass a copy"
        )


def input_array(value: object, spec: TensorSpec) -> Array:
    """An input as a contiguous array, copied only where it is not contiguous; ValueError if it does not fit."""
    what = f"input '{spec.name}'"
    array = as_array(what, value)
    check_array(what, array, spec)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def output_array(value: object, spec: TensorSpec) -> Array:
    """The memory of an array that was given for an output; ValueError if it cannot be written in place."""
    what = f"output '{spec.name}'"
    if not hasattr(value, "__dlpack__"):  # numpy would make an array of it that nobody sees
        raise ValueError(f"expected {what} to be an array, but got {type(value).__name__}")
    array = as_array(what, value)
    check_array(what, array, spec)
    if not (array.flags.c_contiguous and array.flags.writeable):
        raise ValueError(f"expected {what} to be a contiguous array that can be written")
    return array


__all__ = [
    "Array",
    "TensorSpec",
    "address_of",
    "aligned",
    "as_array",
    "check_array",
    "check_names",
    "check_out",
    "input_array",
    "is_ready",
    "output_array",
    "pointers",
]
