"""The meaning of `loop.call`: the registered function is called, and a C function through ctypes."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerType, MemRefType, i64

from mlc.dialects import loop
from mlc.dialects.external import Argument, Callee, SizeArgument
from mlc.interp import values as V
from mlc.interp.errors import InterpreterError, NotInterpreted
from mlc.support.errors import UserError
from mlc.support.registered.functions import call_function, get_func

Array = np.ndarray[Any, Any]
Call = Callable[[Sequence[Array], Sequence[Array], Sequence[int]], None]
"""Takes the buffers that are read, those that are written, and the sizes that the op lists."""


def caller(op: loop.ExternCallOp) -> Call:
    """A function that does what the op does; NotInterpreted if its callee is not known in this process."""
    callee = op.called
    dtypes = [V.dtype_of(cast("MemRefType[Any]", v.type).element_type) for v in op.buffers]
    if callee.convention == "registered":
        try:
            get_func(callee.name)
        except UserError as error:
            raise NotInterpreted(f"cannot interpret a call of '{callee.name}': {error.text}", op) from error
        return _in_own_types(call_of(callee), dtypes)
    function = _c_function(callee, op)
    arguments = callee.buffers(len(op.buffers))

    def call(inputs: Sequence[Array], outputs: Sequence[Array], sizes: Sequence[int]) -> None:
        given = [_c_argument(a, [*inputs, *outputs], sizes) for a in arguments]
        if status := function(*given):
            raise InterpreterError(f"'{callee.name}' returned {status}", op)

    return _in_own_types(call, dtypes)


def call_of(callee: Callee) -> Call:
    """A call of the registered function, looked up when it is called; it sees the sign of integers."""

    def call(inputs: Sequence[Array], outputs: Sequence[Array], sizes: Sequence[int] = ()) -> None:
        buffers = [*inputs, *outputs]
        for k in callee.unsigned:
            buffers[k] = buffers[k].view(f"u{buffers[k].dtype.name}")
        call_function(callee.name, buffers[: len(inputs)], buffers[len(inputs) :])

    return call


def _in_own_types(call: Call, dtypes: Sequence[Any]) -> Call:
    """The call on arrays of the buffers' own types, which differ where the arithmetic is wider."""

    def converted(inputs: Sequence[Array], outputs: Sequence[Array], sizes: Sequence[int]) -> None:
        buffers = [*inputs, *outputs]
        own = [np.asarray(a.astype(t, copy=False), order="C") for a, t in zip(buffers, dtypes, strict=True)]
        call(own[: len(inputs)], own[len(inputs) :], sizes)
        for buffer, array in zip(outputs, own[len(inputs) :], strict=True):
            if array is not buffer:
                buffer[...] = array

    return converted


@cache
def _library(name: str | None) -> ctypes.CDLL:
    if name is None or "/" in name or ".so" in name:
        return ctypes.CDLL(name)
    found = ctypes.util.find_library(name)
    if found is None:
        raise OSError(f"there is no library '{name}'")
    return ctypes.CDLL(found)


def _c_function(callee: Callee, op: loop.ExternCallOp) -> Callable[..., int]:
    """The C function, from the libraries that the call names, or else from this process."""
    for name in callee.libraries or (None,):
        try:
            function = getattr(_library(name), callee.name)
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_int if callee.status else None
        return function
    where = f"in {', '.join(callee.libraries)}" if callee.libraries else "in this process; name its libraries"
    raise NotInterpreted(f"cannot interpret a call of the C function '{callee.name}': it is not found {where}", op)


def _c_argument(argument: Argument, buffers: Sequence[Array], sizes: Sequence[int]) -> Any:
    if isinstance(argument, SizeArgument):
        return (ctypes.c_int64 if argument.type == i64 else ctypes.c_int32)(int(sizes[argument.number.data]))
    if isinstance(argument, FloatAttr):
        value, kind = argument.value.data, argument.type.bitwidth
        return (ctypes.c_double if kind == 64 else ctypes.c_float)(value)
    number = argument.value.data
    if isinstance(argument.type, IndexType):
        return ctypes.c_void_p(buffers[number].ctypes.data)
    assert isinstance(argument.type, IntegerType)
    return {8: ctypes.c_int8, 16: ctypes.c_int16, 32: ctypes.c_int32}.get(argument.type.width.data, ctypes.c_int64)(
        number
    )
