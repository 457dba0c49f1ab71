"""
Functions that a program registers by name, for compiled code and the interpreters to call.

    @mlc.register_func("my.cumsum")
    def cumsum(x, y):                 # inputs, then outputs: numpy views of the caller's memory
        np.cumsum(x, out=y)

A C function with the signature of `FUNCTION` (support/abi.py) may be registered as well, by its ctypes pointer.
Registering takes effect at once, for programs that are loaded too; the registry is one a process.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast, overload

import numpy as np

from mlc.support.abi import ERROR_BYTES, FUNCTION, FUNCTION_FAILED, TensorStruct
from mlc.support.dtypes import dtype_of
from mlc.support.errors import UserError, did_you_mean

Array = np.ndarray[Any, Any]
F = TypeVar("F", bound=Callable[..., Any])

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_POINTER = type(FUNCTION(0)).__mro__[1]
"""The type of all ctypes function pointers."""
_FUNCTIONS: dict[str, Callable[..., Any]] = {}
_ENTRIES: dict[str, Any] = {}
"""The C entry of each name that was ever asked for; loaded code may hold it, so that it is never freed."""
_PENDING: dict[int, BaseException] = {}
"""What registered functions have raised, by the address of the caller's error text."""
_LOCK = threading.Lock()
_changes = [0]

# DLPack's codes of element types.
_KINDS = {"i": 0, "u": 1, "f": 2, "b": 6}
_BFLOAT = 4


@overload
def register_func(name: str, fn: F, *, override: bool = False) -> F: ...
@overload
def register_func(name: str, fn: None = None, *, override: bool = False) -> Callable[[F], F]: ...
@overload
def register_func(name: F, fn: None = None, *, override: bool = False) -> F: ...
def register_func(name: Any, fn: Any = None, *, override: bool = False) -> Any:
    """
    Register `fn(*inputs, *outputs)`, which compiled code calls by `name`; a decorator without `fn`.

    A Python function gets numpy arrays: inputs that cannot be written, and outputs, which it writes. A ctypes pointer
    gets the arguments of `mlc_function` in an exported header. Raises UserError for a name that is no identifier (dots
    are allowed) or is taken, unless `override`.
    """
    if callable(name) and not isinstance(name, str):
        return register_func(name.__name__, name, override=override)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UserError(f"expected the name of a function like 'my.function', but got {name!r}")
    if fn is None:
        return partial(_register, name, override=override)
    return _register(name, fn, override=override)


def _register(name: str, fn: F, *, override: bool) -> F:
    if not callable(fn):
        raise UserError(f"expected '{name}' to be a function, but got {fn!r}")
    with _LOCK:
        if name in _FUNCTIONS and not override:
            raise UserError(f"expected a new name, but '{name}' is registered; override=True replaces it")
        _FUNCTIONS[name] = fn
        _changes[0] += 1
    return fn


def get_func(name: str) -> Callable[..., Any]:
    """The function that is registered by a name; UserError if there is none."""
    found = _FUNCTIONS.get(name)
    if found is None:
        near = did_you_mean(name, _FUNCTIONS)
        raise UserError(f"expected a registered function '{name}'{near or '; mlc.register_func registers it'}")
    return found


def list_funcs() -> list[str]:
    """The names of the registered functions, sorted."""
    return sorted(_FUNCTIONS)


def remove_func(name: str) -> None:
    """Remove a registered function; UserError if there is none. A program that calls it refuses to run from then."""
    get_func(name)
    with _LOCK:
        del _FUNCTIONS[name]
        _changes[0] += 1


def changes() -> int:
    """A number that grows with every change of the registry."""
    return _changes[0]


def is_pointer(fn: Callable[..., Any]) -> bool:
    """Whether a registered function is a ctypes pointer, which compiled code calls without Python."""
    return isinstance(fn, _POINTER)


def entry(name: str) -> int:
    """The address by which compiled code calls what is registered by a name; 0 if nothing is."""
    fn = _FUNCTIONS.get(name)
    if fn is None:
        return 0
    if isinstance(fn, _POINTER):
        return ctypes.cast(cast("Any", fn), ctypes.c_void_p).value or 0
    with _LOCK:
        if name not in _ENTRIES:
            _ENTRIES[name] = FUNCTION(_Entry(name))
    return ctypes.cast(_ENTRIES[name], ctypes.c_void_p).value or 0


class _Entry:
    """What compiled code calls by a name: the Python function that is registered then, on views of the tensors."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, context: int | None, tensors: Any, inputs: int, outputs: int, error: int) -> int:
        try:
            arrays = [view(tensors[k], writeable=k >= inputs) for k in range(inputs + outputs)]
            _call(self.name, arrays)
        except BaseException as raised:
            _PENDING[error] = raised
            text = f"{type(raised).__name__}: {raised}".encode()[: ERROR_BYTES - 1]
            ctypes.memmove(error, text + b"\0", len(text) + 1)
            return FUNCTION_FAILED
        return 0


def _call(name: str, arrays: Sequence[Array]) -> None:
    """Call a registered Python function; UserError if it returns something."""
    result = get_func(name)(*arrays)
    if result is not None:
        raise UserError(f"expected '{name}' to write its outputs and return None, but it returned {result!r:.60}")


def call_function(name: str, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Call what is registered by a name on arrays, as the interpreters do; raises what it raises."""
    fn = get_func(name)
    if not isinstance(fn, _POINTER):
        seen = [array.view() for array in inputs]
        for array in seen:
            array.flags.writeable = False
        _call(name, [*seen, *outputs])
        return
    keeper = [tensor_of(array) for array in (*inputs, *outputs)]
    tensors = (TensorStruct * len(keeper))(*(tensor for tensor, _ in keeper))
    text = ctypes.create_string_buffer(ERROR_BYTES)
    status = FUNCTION(entry(name))(None, tensors, len(inputs), len(outputs), ctypes.addressof(text))
    if status:
        raise RuntimeError(f"'{name}' returned error {status}{_quoted(text.value)}")


def view(tensor: TensorStruct, writeable: bool) -> Array:
    """The numpy array of a tensor in memory."""
    shape = [tensor.shape[k] for k in range(tensor.rank)]
    dtype = _dtype(tensor.code, tensor.bits)
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not count:
        return np.empty(shape, dtype)
    memory: Any = (ctypes.c_char * count).from_address(tensor.data)
    array: Array = np.frombuffer(memory, dtype).reshape(shape)
    array.flags.writeable = writeable
    return array


def tensor_of(array: Array) -> tuple[TensorStruct, Any]:
    """A contiguous array as a tensor in memory, and what keeps its shape alive."""
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    code, bits = dtype_code(array.dtype)
    tensor = TensorStruct(array.ctypes.data, 1, 0, array.ndim, code, bits, 1, shape, None, 0)
    return tensor, (shape, array)


def dtype_code(dtype: np.dtype[Any]) -> tuple[int, int]:
    """DLPack's code and number of bits of an element type."""
    return _KINDS.get(dtype.kind, _BFLOAT), 8 * dtype.itemsize


def _dtype(code: int, bits: int) -> np.dtype[Any]:
    names = {0: f"int{bits}", 1: f"uint{bits}", 2: f"float{bits}", _BFLOAT: "bfloat16", 6: "bool"}
    return dtype_of(names[code])


def take_failure(error: int, what: str, status: int) -> Exception:
    """
    The exception for a program that returned `status`; `error` is the address of its runtime's error text.

    What a registered Python function raised is the cause of the RuntimeError, whose text holds its type and text.
    """
    raised = _PENDING.pop(error, None)
    if raised is not None and not isinstance(raised, Exception):
        raise raised  # the user's interrupt
    text = ctypes.string_at(error)
    ctypes.memset(error, 0, 1)
    if raised is None and not text:
        return RuntimeError(f"{what} returned error {status}")
    failure = RuntimeError(f"{what} called a function that failed{_quoted(text)}")
    failure.__cause__ = raised
    return failure


def _quoted(text: bytes) -> str:
    return f": {text.decode(errors='replace')}" if text else ""


__all__ = ["get_func", "list_funcs", "register_func", "remove_func"]
