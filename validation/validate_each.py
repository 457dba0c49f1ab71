"""
`--validate-each`: run every function before and after each pass, and stop at the first pass that changes a result.

The first run of a function is on inputs that its caller recorded, or on random ones; its results in f64 become the
baseline. Name, inputs and baseline stay the same while the function is lowered: `func.func -> te.func -> loop.func ->
llvm.func`. A pass class may declare `exact = True`: floating-point results before and after it must then agree bit by
bit. A pass that approximates declares `tolerance`, the error constant c of the results from then on.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.interp.compare import DEFAULT_C, EXACT, Tolerance, differences
from mlc.support.dtypes import dtype_of
from mlc.support.errors import warn
from mlc.validation.execute import Facts, Module, RunnableFunction, Types, types_of
from mlc.validation.report import ResultChanged, source_node


@dataclass
class Baseline:
    """The baseline of a function: its types, its inputs, its results in f64, and the results of its last run."""

    inputs: Types
    outputs: Types
    arrays: list[Any]
    reference: list[Any]
    last: list[Any]
    text: str
    length: int
    c: float
    epsilon: float = 0.0
    sizes: dict[str, int] = field(default_factory=dict)
    symbols: tuple[int, ...] = ()


@dataclass
class Recorded:
    """The arguments of a call: arrays, and the values of the symbols."""

    arrays: list[Any]
    sizes: dict[str, int] = field(default_factory=dict)


@dataclass
class ValidateInstrument:
    """The instrument of `--validate-each`: `run_passes(..., instruments=[ValidateInstrument()])`."""

    weights: Any = None
    seed: int = 0
    inputs: dict[str, Sequence[Any] | Recorded] = field(default_factory=dict)
    """Inputs by function name (with symbolic sizes: name in a case); other functions get recorded or random ones."""
    known: dict[str, Baseline] = field(default_factory=dict)
    ran: int = 0
    """The number of functions that were run, for tests and reports."""
    _recorded: dict[str, Recorded] = field(default_factory=dict)
    _sizes: dict[str, dict[str, int]] = field(default_factory=dict)
    _module: ModuleOp | None = None

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Run every function once, before a module's first pass."""
        if self._module is not module:
            self._module = module
            self.known.clear()
            self._recorded.clear()
            self._sizes.clear()
            self._visit(module, None)

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Run the functions that the pass changed."""
        self._visit(module, module_pass)

    def _visit(self, module: ModuleOp, module_pass: ModulePass | None) -> None:
        known = {name: Facts(k.inputs, k.outputs, k.symbols) for name, k in self.known.items()}
        for name, one in self._given().items():
            self._sizes.setdefault(name, one.sizes)
        functions = Module(module, known, self._weights(module), self._record, self._sizes)
        for executable in functions.executables():
            text = str(module) if executable.calls else str(executable.op)
            old = self.known.get(executable.name)
            if old is None or (old.inputs, old.outputs) != (executable.inputs, executable.outputs):
                self._run_first(executable, text, module_pass)
            elif old.text != text:
                self._compare(executable, old, module_pass)
                old.text = text

    def _given(self) -> dict[str, Recorded]:
        """The given inputs, each as a `Recorded`."""
        return {n: v if isinstance(v, Recorded) else Recorded(list(v)) for n, v in self.inputs.items()}

    def recorded(self) -> dict[str, Recorded]:
        """The inputs on which functions were run, for another instrument that validates a later form of them."""
        return {name: Recorded(known.arrays, known.sizes) for name, known in self.known.items()}

    def _record(self, name: str, arrays: Sequence[Any], sizes: dict[str, int]) -> None:
        if name not in self._recorded:
            self._recorded[name] = Recorded([np.asarray(a) for a in arrays], sizes)
            self._sizes[name] = sizes

    def _weights(self, module: ModuleOp) -> Any:
        from mlc.dialects.graph.store import store_of

        return self.weights or store_of(module) or RandomWeights(module, self.seed)

    def _run_first(self, executable: RunnableFunction, text: str, module_pass: ModulePass | None) -> None:
        """The first run of a function."""
        given = self._given().get(executable.name)
        if given is None or not given.arrays:
            given = self._recorded.get(executable.name, Recorded([]))
        arrays = given.arrays
        if not fits(arrays, executable.inputs):
            arrays = random_arrays(executable.inputs, self.seed)
        try:
            last = self._run(executable, arrays)
            reference = executable.wide(arrays) if executable.wide is not None else last
        except Exception as error:
            warn(executable.op, f"is not validated, for its interpreter says: {error}")
            return
        self.known[executable.name] = Baseline(
            executable.inputs,
            executable.outputs,
            arrays,
            reference,
            last,
            text,
            executable.length,
            executable.c or DEFAULT_C,
            executable.epsilon,
            executable.sizes,
            executable.symbols,
        )

    def _run(self, executable: RunnableFunction, arrays: Sequence[Any]) -> list[Any]:
        self.ran += 1
        return executable.run([a.copy() for a in arrays])

    def _compare(self, executable: RunnableFunction, old: Baseline, module_pass: ModulePass | None) -> None:
        assert module_pass is not None
        try:
            results = self._run(executable, old.arrays)
        except Exception as error:
            raise ResultChanged(module_pass, executable, f"it no longer runs: {error}", None) from error
        old.length = max(old.length, executable.length)
        old.c = max(old.c, executable.c, getattr(module_pass, "tolerance", 0.0))
        old.epsilon = max(old.epsilon, executable.epsilon)
        exact = bool(getattr(module_pass, "exact", False))
        found = differences(old.last, results, EXACT) if exact else None
        if found is None:
            found = differences(old.reference, results, Tolerance(old.c, old.length, epsilon=old.epsilon))
        if found is not None:
            before = old.last[found.output][found.index] if found.index else found.expected
            what = f"{found}; before the pass it was {before}"
            raise ResultChanged(module_pass, executable, what, found)
        old.last = results


@dataclass
class RandomWeights:
    """Random weights for a module without a store, seeded by name; variances of norms are positive."""

    module: ModuleOp
    seed: int = 0

    def array(self, name: str) -> Any:
        """The weight of this name."""
        for op in self.module.walk():
            if op.name == "graph.param" and getattr(op, "entry", None) == name:
                types = types_of([op.results[0].type])
                positive = any("norm" in use.operation.name for use in op.results[0].uses)
                if types is not None:
                    return random_arrays(types, self.seed + zlib.crc32(name.encode()), positive)[0]
        raise ValueError(f"expected a graph.param of {name!r} with a static shape")


def fits(arrays: Sequence[Any], types: Types) -> bool:
    """Whether arrays have these shapes and dtypes."""
    return [(a.shape, a.dtype.name) for a in arrays] == list(types)


def random_arrays(types: Types, seed: int, positive: bool = False) -> list[Any]:
    """Random arrays: floats normally distributed, bytes over their whole range, wider integers in 0..3."""
    rng = np.random.default_rng(seed)
    found: list[Any] = []
    for shape, name in types:
        dtype = dtype_of(name)
        if dtype == np.bool_:
            found.append(rng.integers(0, 2, shape).astype(dtype))
        elif dtype.kind in "iu":
            low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.itemsize == 1 else (0, 4)
            found.append(rng.integers(low, high, shape).astype(dtype))
        else:
            normal = rng.standard_normal(shape)
            found.append((np.abs(normal) * 0.5 + 0.1 if positive else normal).astype(dtype))
    return found


__all__ = ["Recorded", "ResultChanged", "ValidateInstrument", "fits", "random_arrays", "source_node"]
