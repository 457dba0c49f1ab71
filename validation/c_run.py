"""
Compile C99 kernels with the system's compiler and call them on numpy arrays.

Compiled kernels are kept by their text, so that a kernel is compiled once however often it is run; `precompile` hands
all kernels of a pass to the compiler in one call.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.codegen.c.emit import print_function
from mlc.codegen.c.prelude import PRELUDE, SNAPPED_PRELUDE
from mlc.codegen.c.printer import RACES, checked_ops
from mlc.codegen.c.types import NoCForm
from mlc.dialects import loop
from mlc.interp.errors import InterpreterError, NotInterpreted
from mlc.interp.loop import bind, outputs_of
from mlc.support.arithmetic import OWN, Arithmetic
from mlc.support.errors import UserError
from mlc.support.scratch import scratch_directory
from mlc.validation.facts import count_operations
from mlc.validation.widen import widened

FLAGS = ("-std=gnu99", "-ffp-contract=off", "-march=native", "-w", "-fPIC", "-shared")
OPTIMIZED = "-Og", "-fno-inline"
OPTIMIZED_OPERATIONS = 10_000
"""
Scalar operations of a kernel, for each byte of its text, from which it is optimised. On the kernels of squeezenet, -O1
takes three times as long to compile as -O0, and the compiled loops run in a fifth of the time.
"""
COMPILERS = 2
"""Calls of the compiler that run side by side."""
SPLIT_BYTES = 200_000
"""Length of text from which a second call of the compiler is worth its start."""
KEPT_KERNELS = 256
"""Compiled kernels that are kept."""
Kernel = Callable[[Sequence[Any]], int]
_COMPILED: dict[str, Kernel] = {}
"""Compiled kernels by the C text of the kernel."""


def has_compiler() -> bool:
    """Whether the system has a C compiler."""
    return shutil.which(_compiler()[0]) is not None


def _compiler() -> list[str]:
    """The command of the C compiler."""
    return os.environ.get("CC", "cc").split()


def compile_and_load(text: str, *, optimized: bool = False) -> dict[str, Kernel]:
    """The functions of a C text by name; each takes its arrays and symbols, and returns a status, 0 for success."""
    compiler = _compiler()
    if not has_compiler():
        raise UserError(f"expected a C compiler, but got no '{compiler[0]}'; set CC")
    with scratch_directory() as directory:
        source, target = Path(directory, "kernels.c"), Path(directory, "kernels.so")
        source.write_text(text)
        command = [*compiler, *FLAGS, *(OPTIMIZED if optimized else ("-O0",)), str(source), "-o", str(target), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise UserError(f"expected C that compiles, but got: {done.stderr.strip()}")
        library = ctypes.CDLL(str(target))
    return {name: _callable(library, name) for name in re.findall(r"^int32_t (\w+)\(void \*\*args", text, re.M)}


def _callable(library: ctypes.CDLL, name: str) -> Kernel:
    function = library[name]
    function.restype, function.argtypes = ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p]

    def call(arrays: Sequence[Any]) -> int:
        pointers: list[int] = []
        for k, a in enumerate(arrays):
            if isinstance(a, np.ndarray) and not a.flags.c_contiguous:
                raise UserError(f"expected contiguous arrays, but argument {k} of {name} is not")
            pointers.append(a.ctypes.data if isinstance(a, np.ndarray) else int(a))
        return function((ctypes.c_void_p * len(pointers))(*pointers), None)

    return call


def run(func: loop.FuncOp, arrays: Sequence[Any], arithmetic: Arithmetic = OWN) -> list[Any]:
    """Run a kernel as C99, as `mlc.interp.loop.run` does; an access out of bounds raises InterpreterError."""
    return CKernel(func).run(arrays, arithmetic)


def prepare(func: loop.FuncOp, arithmetic: Arithmetic = OWN) -> Callable[[Sequence[Any]], list[Any]]:
    """Compile a kernel once, to run it several times."""
    kernel = CKernel(func)
    kernel.text(arithmetic)
    return lambda arrays: kernel.run(arrays, arithmetic)


@dataclass
class CKernel:
    """A kernel in its present form, which is printed once for each arithmetic."""

    func: loop.FuncOp
    symbols: Mapping[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """The values of its index arguments."""
    texts: dict[Arithmetic, str] = field(default_factory=dict)

    def text(self, arithmetic: Arithmetic) -> str:
        """The kernel as C99 in an arithmetic; NotInterpreted where C has no form of it."""
        if arithmetic not in self.texts:
            try:
                self.texts[arithmetic] = text_of(self.func, arithmetic)
            except NoCForm as error:
                raise NotInterpreted(error.text, self.func) from error
        return self.texts[arithmetic]

    @cached_property
    def operations(self) -> int:
        """An estimate of the scalar operations of one run."""
        return count_operations(self.func, self.symbols)

    def is_optimized(self, arithmetic: Arithmetic) -> bool:
        """Whether the kernel runs so long that it is worth optimising."""
        return self.operations > OPTIMIZED_OPERATIONS * len(self.text(arithmetic))

    def run(self, arrays: Sequence[Any], arithmetic: Arithmetic) -> list[Any]:
        """The outputs; InterpreterError for an access out of bounds, and for a race; NotInterpreted if C cannot run."""
        if not has_compiler():
            raise NotInterpreted(f"it is so large that it runs as C99, and there is no '{_compiler()[0]}'; set CC")
        text = self.text(arithmetic)
        if text not in _COMPILED:
            precompile([(self, arithmetic)])
        bound = bind(self.func, arrays, arithmetic)
        args = [np.asarray(a, order="C") if isinstance(a, np.ndarray) else a for a in bound]
        _check(self.func, _COMPILED[text](args))
        return outputs_of(self.func, args)


def _check(func: loop.FuncOp, code: int) -> None:
    """InterpreterError for a return code that is not 0."""
    name = func.sym_name.data
    if code > RACES:
        op = checked_ops(func)[code - RACES - 1]
        raise InterpreterError(f"'{op.name}' races: iterations of a parallel loop depend on each other in @{name}", op)
    if code > 0:
        op = checked_ops(func)[code - 1]
        raise InterpreterError(f"'{op.name}' goes out of bounds in @{name}", op)
    if code:
        raise InterpreterError(f"expected @{name} to return 0, but got {code}", func)


def text_of(func: loop.FuncOp, arithmetic: Arithmetic = OWN) -> str:
    """A kernel as C99 in an arithmetic; UserError where it has no wide form."""
    form = widened(func, arithmetic) if arithmetic.wide else func
    if form is None:
        raise NoCForm(f"expected @{func.sym_name.data} without bitcasts of floats, for it runs in f64")
    return print_function(form, checked=True, snapped=arithmetic.wide, races=not arithmetic.wide)


def precompile(kernels: Iterable[tuple[CKernel, Arithmetic]]) -> None:
    """Compile several kernels in few calls of the compiler, so that `run` finds them."""
    how = {kernel.text(arithmetic): kernel.is_optimized(arithmetic) for kernel, arithmetic in kernels}
    parts: list[tuple[list[str], bool]] = []
    for optimized in (False, True):
        missing = [text for text, is_optimized in how.items() if text not in _COMPILED and is_optimized == optimized]
        count = COMPILERS if sum(map(len, missing)) > SPLIT_BYTES else 1
        parts += [(part, optimized) for k in range(count) if (part := missing[k::count])]
    with ThreadPoolExecutor(COMPILERS) as pool:
        for (texts, _), compiled in zip(parts, pool.map(_compiled, parts), strict=True):
            _COMPILED.update(zip(texts, compiled, strict=True))
    for text in list(_COMPILED)[: max(0, len(_COMPILED) - KEPT_KERNELS)]:
        del _COMPILED[text]


def _compiled(part: tuple[Sequence[str], bool]) -> list[Kernel]:
    """The kernels of C texts, compiled in one call of the compiler."""
    texts, optimized = part
    head = re.compile(r"^int32_t \w+\(", re.M)
    renamed = [head.sub(f"int32_t kernel_{k}(", text, count=1) for k, text in enumerate(texts)]
    library = compile_and_load("\n".join([PRELUDE, SNAPPED_PRELUDE, *renamed]), optimized=optimized)
    return [library[f"kernel_{k}"] for k in range(len(texts))]
