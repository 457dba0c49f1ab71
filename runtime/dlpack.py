"""
Arrays of other libraries by DLPack: numpy views of their memory, without a copy.

    PyCapsule -> DLManagedTensor { DLTensor, manager_ctx, deleter }
              or DLManagedTensorVersioned { version, manager_ctx, deleter, flags, DLTensor }

The capsule is kept, not consumed: when the view is collected, so is the capsule, whose destructor frees the tensor.
numpy's own `from_dlpack` has no bfloat16 and marks what it reads as not writable.
"""

import ctypes
from typing import Any

import numpy as np

from mlc.support.dtypes import dtype_of

CPU_DEVICES = (1, 3, 11)
"""DLPack's numbers of devices whose memory the CPU reads: CPU, pinned by CUDA, pinned by ROCm."""
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA managed", 14: "oneAPI", 15: "WebGPU"}
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_READ_ONLY = 1


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_size_t),
        ("device", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


class _View:
    """numpy's array interface of a tensor; it keeps the capsule, and so the memory, alive."""

    def __init__(self, interface: dict[str, Any], capsule: object) -> None:
        self.__array_interface__ = interface
        self._capsule = capsule


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def from_dlpack(what: str, source: Any) -> "np.ndarray[Any, np.dtype[Any]]":
    """
    A view of the memory of an object with `__dlpack__` and `__dlpack_device__`.

    Raises ValueError, which begins with `what`, for memory of another device, for an element type that numpy lacks, and
    for an object that refuses to export its memory.
    """
    device = int(source.__dlpack_device__()[0]) if hasattr(source, "__dlpack_device__") else CPU_DEVICES[0]
    if device not in CPU_DEVICES:
        name = _DEVICES.get(device, f"DLPack device {device}")
        raise ValueError(f"expected {what} in memory of the CPU, but got an array on {name}; copy it to the CPU")
    tensor, read_only, capsule = _export(what, source)
    dtype = _dtype(what, tensor)
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(s * dtype.itemsize for s in tensor.strides[: tensor.ndim]) if tensor.strides else None
    address = (tensor.data or 0) + tensor.byte_offset
    if 0 in shape or not address:
        return np.empty(shape, dtype)
    # the array interface has no word for bfloat16
    interface = {"version": 3, "shape": shape, "strides": strides, "data": (address, read_only)}
    plain = np.dtype(f"u{dtype.itemsize}") if dtype.kind == "V" else dtype
    return np.asarray(_View({**interface, "typestr": plain.str}, capsule)).view(dtype)


def _export(what: str, source: Any) -> "tuple[_Tensor, bool, object]":
    """The tensor of an object, whether it is read-only, and its capsule."""
    try:
        try:
            capsule = source.__dlpack__(max_version=(1, 1))
        except TypeError:  # its library is older than versions of DLPack
            capsule = source.__dlpack__()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"expected {what} to export its memory by DLPack, but got: {error}") from error
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_get_pointer(capsule, b"dltensor_versioned"))
        if versioned.major != 1:
            raise ValueError(f"expected {what} by DLPack 1, but got version {versioned.major}.{versioned.minor}")
        return versioned.tensor, bool(versioned.flags & _READ_ONLY), capsule
    if not _is_valid(capsule, b"dltensor"):
        raise ValueError(f"expected {what} to export a DLPack capsule, but got {type(capsule).__name__}")
    return _Tensor.from_address(_get_pointer(capsule, b"dltensor")), False, capsule


def _dtype(what: str, tensor: _Tensor) -> "np.dtype[Any]":
    kind = _KINDS.get(tensor.code)
    if kind is None or tensor.lanes != 1:
        raise ValueError(
            f"expected {what} of an element type that numpy has, but got DLPack type code {tensor.code} of "
            f"{tensor.bits} bits and {tensor.lanes} lanes"
        )
    if kind == "bool":
        return np.dtype(np.bool_)
    return dtype_of(f"{kind}{tensor.bits}")


__all__ = ["CPU_DEVICES", "from_dlpack"]
