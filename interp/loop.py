"""
The reference interpreter of the loop dialect: op by op, on numpy buffers.

In: a verified `loop.func`. It is translated to one Python function, one line per operation, which takes about a
microsecond per operation. Parallel loops run serially, or with `shuffle` in random order, which exposes races. Buffers
are filled with NaN or an unlikely integer, which exposes reads of uninitialized memory. An access out of bounds raises
an error that names the operation and the index.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from mlc.dialects import loop
from mlc.interp import values as V
from mlc.interp.errors import InterpreterError
from mlc.interp.loop_helpers import HELPERS, is_dynamic
from mlc.interp.loop_program import PythonEmitter
from mlc.interp.observe import Observe
from mlc.support.arithmetic import OWN, Arithmetic

Array = np.ndarray[Any, Any]


@dataclass
class TranslatedProgram:
    """A kernel translated to a Python function."""

    func: loop.FuncOp
    source: str
    call: Callable[..., None]
    arithmetic: Arithmetic

    def __call__(self, arrays: Sequence[Any]) -> list[Array]:
        """Run on inputs, outputs and symbols in the order of the arguments; omitted outputs are allocated."""
        args = bind(self.func, arrays, self.arithmetic)
        with np.errstate(all="ignore"):
            self.call(*args)
        return outputs_of(self.func, args)


def run(
    func: loop.FuncOp,
    arrays: Sequence[Any],
    *,
    shuffle: int | None = None,
    arithmetic: Arithmetic = OWN,
    observe: Observe | None = None,
) -> list[Array]:
    """
    Run a kernel on its arguments (inputs, outputs, symbols) and return the outputs.

    Given outputs are written in place; omitted ones are allocated. `shuffle` is a seed: parallel iterations then run in
    random order. `observe` is called after each op that computes or stores values, every time that it runs.
    """
    return prepare(func, shuffle=shuffle, arithmetic=arithmetic, observe=observe)(arrays)


def prepare(
    func: loop.FuncOp,
    *,
    shuffle: int | None = None,
    arithmetic: Arithmetic = OWN,
    observe: Observe | None = None,
) -> TranslatedProgram:
    """Translate a kernel once, to run it several times."""
    emitter = PythonEmitter(arithmetic, observed=observe is not None)
    emitter.function(func)
    source = "\n".join(emitter.lines) + "\n"
    scope: dict[str, Any] = {**HELPERS, **emitter.constants, "_span": _span(shuffle), "_observe": observe}
    exec(compile(source, f"<loop.func @{func.sym_name.data}>", "exec"), scope)
    return TranslatedProgram(func, source, scope["_kernel"], arithmetic)


def arguments(func: loop.FuncOp) -> tuple[list[MemRefType[Any]], list[MemRefType[Any]], int]:
    """The types of inputs and outputs, and the number of symbols, which follow them."""
    buffers = [a.type for a in func.args if isinstance(a.type, MemRefType)]
    n = len(buffers) - func.outputs.value.data
    return buffers[:n], buffers[n:], len(func.args) - len(buffers)


def bind(func: loop.FuncOp, arrays: Sequence[Any], arithmetic: Arithmetic = OWN) -> list[Any]:
    """The arguments, checked against their types; omitted outputs are allocated."""
    ins, outs, symbols = arguments(func)
    given = list(arrays)
    if len(given) == len(ins) + symbols and outs and not any(map(is_dynamic, outs)):
        made = [V.poisoned(t.get_shape(), V.dtype_for(t, arithmetic)) for t in outs]
        given[len(ins) : len(ins)] = made
    if len(given) != len(func.args):
        raise InterpreterError(
            f"expected {len(func.args)} arguments of @{func.sym_name.data} "
            f"({len(ins)} inputs, {len(outs)} outputs, {symbols} symbols), but got {len(given)}",
            func,
        )
    return [_argument(func, k, a.type, x, arithmetic) for k, (a, x) in enumerate(zip(func.args, given, strict=True))]


def _argument(func: loop.FuncOp, k: int, t: Attribute, value: ArrayLike, arithmetic: Arithmetic) -> int | Array:
    if not isinstance(t, MemRefType):
        return int(np.asarray(value))
    array = np.asarray(value)
    shape = t.get_shape()
    if len(shape) != array.ndim or any(n >= 0 and n != m for n, m in zip(shape, array.shape, strict=True)):
        got = "x".join(map(str, array.shape))
        raise InterpreterError(f"expected argument {k} of @{func.sym_name.data} of type {t}, but got shape {got}", func)
    expected = V.dtype_of(t.element_type)
    if array.dtype == V.dtype_for(t, arithmetic):
        return array
    if array.dtype != expected:
        message = f"expected argument {k} of @{func.sym_name.data} of dtype {expected}, but got {array.dtype}"
        raise InterpreterError(message, func)
    return array.astype(V.dtype_for(t, arithmetic))


def outputs_of(func: loop.FuncOp, args: Sequence[Any]) -> list[Array]:
    """The outputs among the arguments."""
    ins, outs, _ = arguments(func)
    return list(args[len(ins) : len(ins) + len(outs)])


def _span(shuffle: int | None) -> Callable[[int, int], Any]:
    """The `range` of a parallel loop: in order, or shuffled by the seed."""
    if shuffle is None:
        return range
    generator = random.Random(shuffle)
    return lambda lo, hi: generator.sample(range(lo, hi), max(hi - lo, 0))
