"""The inputs and outputs of a function of any level, by name, and the check of arrays against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IndexType,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects import loop, te
from mlc.dialects.attributes import (
    KERNEL_SIZES,
    MAIN_INPUTS,
    MAIN_OUTPUTS,
    MAIN_SHAPES,
    NATIVE_SIGNATURE,
)
from mlc.dialects.constants import integer, narrow_arguments
from mlc.dialects.graph.dims import DimsAttr
from mlc.dialects.graph.types import shape_of, sizes_at
from mlc.dialects.index import IndexMapAttr, dim
from mlc.interp import values as V
from mlc.interp.sizes import shapes_at, sizes_of, solved_types, typical_of
from mlc.lowering.graph_to_main.convert import is_main_on_buffers
from mlc.support.errors import UserError, did_you_mean
from mlc.validation.inputs import narrowed, random_arrays
from mlc.validation.plans.plan_places import symbols_on

NAME = "graph.name"
"""The attribute on arguments and results of @main with their names in the model."""


@dataclass(frozen=True)
class Argument:
    """One input or output: its name, and its tensor or buffer type."""

    name: str
    type: Attribute

    @property
    def _shaped(self) -> TensorType[Any] | MemRefType[Any]:
        shaped: Any = self.type
        return shaped

    @property
    def dtype(self) -> np.dtype[Any]:
        """The elements' numpy dtype."""
        return V.dtype_of(self._shaped.element_type)

    @property
    def sizes(self) -> tuple[object, ...]:
        """Each size: a number, an expression over symbols, or "?"."""
        if isinstance(self.type, TensorType) and isinstance(self.type.encoding, DimsAttr):
            return shape_of(self.type)
        return tuple(n if n >= 0 else "?" for n in self._shaped.get_shape())

    def __str__(self) -> str:
        return f"{self.name}: {'x'.join(map(str, self.sizes)) or 'scalar'} {self.dtype}"


@dataclass(frozen=True)
class FunctionSignature:
    """The inputs, the size arguments and the outputs of a function, in order."""

    func: Operation
    function: str
    level: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    symbols: tuple[str, ...] = ()

    def symbol_values(self, arrays: Mapping[str, Any]) -> dict[str, int]:
        """
        The values of the symbols, solved from the arrays of all or some inputs.

        Raises UserError where the arrays contradict each other.
        """
        given = [(k, a) for k, a in enumerate(self.inputs) if a.name in arrays]
        if all(isinstance(n, int) for a in self.inputs for n in a.sizes):
            return {}
        if self.level in ("graph", "main"):
            shapes = [tuple(np.shape(arrays[a.name])) for _, a in given]
            try:
                found = solved_types(self.function, [a.type for _, a in given], shapes)
            except (ValueError, KeyError) as error:
                raise UserError(str(error).strip("'")) from error
            return found
        rows: Any = self.func.attributes.get(KERNEL_SIZES)
        found = {name: int(np.asarray(arrays[name])) for name in self.symbols if name in arrays}
        for k, argument in given:
            row = rows.data[k] if rows is not None else None
            sizes = zip(
                row.data if isinstance(row, IndexMapAttr) else (), np.shape(arrays[argument.name]), strict=False
            )
            for expr, size in sizes:
                for number, name in enumerate(self.symbols):
                    if expr == dim(number):
                        found.setdefault(name, int(size))
        return found

    def typical(self) -> dict[str, int]:
        """Values of the symbols at which a function can be run where no array says them."""
        if isinstance(self.func, FuncOp):
            return sizes_of(self.func, 0) if self.level == "graph" else _typical_of_main(self.func)
        return dict(zip(self.symbols, typical_of(self.func) or (), strict=False))

    def shape(self, position: int, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
        """The shape of an input, or of an output behind them, at these values of the symbols; None if unknown."""
        argument = (*self.inputs, *self.outputs)[position]
        if all(isinstance(n, int) for n in argument.sizes):
            return tuple(n for n in argument.sizes if isinstance(n, int))
        try:
            if isinstance(argument.type, TensorType) and self.level in ("graph", "main"):
                return sizes_at(shape_of(argument.type), sizes)
            shapes = shapes_at(self.func, [sizes[name] for name in self.symbols])
        except KeyError:
            return None
        return shapes[position] if shapes is not None else None


def _typical_of_main(main: FuncOp) -> dict[str, int]:
    return {name: span.typical for name, span in symbols_on(main).items()}


# --- the signatures of each level --------------------------------------------------------------------------------


def signature_of(func: Operation) -> FunctionSignature:
    """The signature of a function of any level; UserError for one that nothing can run."""
    signature = _signature(func, symbol_name(func) or "?")
    for argument in (*signature.inputs, *signature.outputs):
        try:
            if tensor := isinstance(argument.type, TensorType | MemRefType):
                V.dtype_of(argument.type.element_type)
            if signature.level == "graph":
                shape_of(argument.type)
        except (TypeError, VerifyException) as error:
            raise UserError(f"{argument.name} of @{signature.function}: {error}", func) from error
        if not tensor:
            raise UserError(
                f"{argument.name} of @{signature.function}: expected a tensor or a buffer, but got {argument.type}",
                func,
            )
    return signature


def _signature(func: Operation, name: str) -> FunctionSignature:
    """What `signature_of` returns, whatever the types of arguments are."""
    if isinstance(func, FuncOp) and is_main_on_buffers(func):
        return _main(func, name)
    if isinstance(func, FuncOp):
        t = func.function_type
        inputs = _arguments(func.body.block.args, t.inputs.data, "input", func.arg_attrs)
        return FunctionSignature(func, name, "graph", inputs, _results(t.outputs.data, func.res_attrs))
    if isinstance(func, te.FuncOp):
        values, symbols = _split(func.args)
        outputs = _results([v.type for v in func.return_op.values])
        inputs = _arguments(values, [v.type for v in values], "input")
        return FunctionSignature(func, name, "te", inputs, outputs, _names(symbols, "size"))
    if isinstance(func, loop.FuncOp):
        values, symbols = _split(func.args)
        first = len(values) - func.outputs.value.data
        inputs = _arguments(values[:first], [v.type for v in values[:first]], "input")
        outputs = _results([v.type for v in values[first:]])
        return FunctionSignature(func, name, "loop", inputs, outputs, _names(symbols, "size"))
    t = func.attributes.get(NATIVE_SIGNATURE)
    if not isinstance(t, FunctionType):
        remedy = "run a kernel (its entry, with the attribute mlc.signature), or a module of a level above"
        raise UserError(f"expected a function that can be run, but got {func.name} @{name}; {remedy}", func)
    tensors = [one for one in t.inputs.data if not isinstance(one, IndexType)]
    symbols = tuple(f"size{k}" for k in range(len(t.inputs) - len(tensors)))
    inputs = tuple(Argument(f"input{k}", one) for k, one in enumerate(tensors))
    return FunctionSignature(func, name, "llvm", inputs, _results(t.outputs.data), symbols)


def _main(func: FuncOp, name: str) -> FunctionSignature:
    counts = [integer(func.attributes.get(key)) or 0 for key in (MAIN_INPUTS, MAIN_OUTPUTS)]
    args = func.body.block.args
    shapes = func.attributes.get(MAIN_SHAPES)
    types = [a.type for a in args] if not isinstance(shapes, ArrayAttr) else list(shapes.data)
    first, last = counts[0], sum(counts)
    inputs = _arguments(args[:first], types[:first], "input", func.arg_attrs)
    rest = None if func.arg_attrs is None else ArrayAttr(func.arg_attrs.data[first:last])
    outputs = _results(types[first:last], rest)
    return FunctionSignature(func, name, "main", inputs, outputs, tuple(symbols_on(func)))


def symbol_name(op: Operation) -> str | None:
    """The symbol that an operation of a module defines."""
    name = op.properties.get("sym_name")
    return name.data if isinstance(name, StringAttr) else None


def _split(args: Sequence[SSAValue]) -> tuple[list[SSAValue], list[SSAValue]]:
    """The tensors or buffers, and the size arguments."""
    return [a for a in args if not isinstance(a.type, IndexType)], [a for a in args if isinstance(a.type, IndexType)]


def _names(values: Sequence[SSAValue], what: str, records: ArrayAttr[DictionaryAttr] | None = None) -> tuple[str, ...]:
    """A name for each value: that in the model, or in the text, or a number; no name twice."""
    found: list[str] = []
    for k, value in enumerate(values):
        given = records.data[k].data.get(NAME) if records is not None and k < len(records.data) else None
        name = given.data if isinstance(given, StringAttr) else value.name_hint or f"{what}{k}"
        found.append(f"{what}{k}" if name in found else name)
    return tuple(found)


def _arguments(
    values: Sequence[SSAValue], types: Sequence[Attribute], what: str, records: ArrayAttr[DictionaryAttr] | None = None
) -> tuple[Argument, ...]:
    names = _names(values, what, records)
    return tuple(Argument(name, t) for name, t in zip(names, types, strict=True))


def _results(types: Sequence[Attribute], records: ArrayAttr[DictionaryAttr] | None = None) -> tuple[Argument, ...]:
    """Outputs have the names of the model, or numbers."""
    given = [] if records is None else [record.data.get(NAME) for record in records.data]
    names = [name.data if isinstance(name, StringAttr) else f"output{k}" for k, name in enumerate(given)]
    names += [f"output{k}" for k in range(len(names), len(types))]
    return tuple(Argument(name, t) for name, t in zip(names, types, strict=True))


# --- arrays ------------------------------------------------------------------------------------------------------


def function_named(module: ModuleOp, name: str | None) -> Operation:
    """The function of this name, by default @main or the only one; UserError if there is none."""
    functions = {n: op for op in module.body.block.ops if (n := symbol_name(op)) is not None and _has_body(op)}
    listed = ", ".join(f"@{n}" for n in functions)
    if name is not None:
        if name.removeprefix("@") not in functions:
            nearest = did_you_mean(name.removeprefix("@"), functions)
            among = f"; the module has {listed}" if listed else ""
            raise UserError(f"expected a function @{name.removeprefix('@')} in the module{nearest or among}")
        return functions[name.removeprefix("@")]
    if "main" in functions:
        return functions["main"]
    native = [n for n, op in functions.items() if op.name != "llvm.func" or NATIVE_SIGNATURE in op.attributes]
    if len(native) != 1:
        remedy = f"; name one of {', '.join(f'@{n}' for n in native)}" if native else ""
        raise UserError(f"expected a function @main or a single function in the module, but got {len(native)}{remedy}")
    return functions[native[0]]


def _has_body(op: Operation) -> bool:
    return bool(op.regions) and bool(op.regions[0].blocks)


def named_inputs(signature: FunctionSignature, inputs: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """Arrays by input name; keys are names, or `input0`, `input1`, ...; a sequence is in order. UserError if not."""
    names = [a.name for a in signature.inputs]
    if not isinstance(inputs, Mapping):
        if len(inputs) != len(names):
            expected = f"{len(names)} ({', '.join(names)})" if names else "none"
            raise UserError(f"expected {expected} inputs of @{signature.function}, but got {len(inputs)}")
        return dict(zip(names, inputs, strict=True))
    numbered = {f"input{k}": name for k, name in enumerate(names)}
    known = {**numbered, **{name: name for name in (*names, *signature.symbols)}}
    found: dict[str, Any] = {}
    for name, array in inputs.items():
        if name not in known:
            nearest = did_you_mean(name, known) or f"; it has {', '.join(map(str, signature.inputs)) or 'none'}"
            raise UserError(f"expected inputs of @{signature.function}, but got an unknown input '{name}'{nearest}")
        if known[name] in found:
            raise UserError(f"expected one array for input '{known[name]}', but got two (the other as '{name}')")
        found[known[name]] = array
    return found


def check_inputs(
    signature: FunctionSignature, arrays: Mapping[str, Any], sizes: Mapping[str, int], wide: bool
) -> list[Any]:
    """The arrays in order, contiguous; UserError for one that is missing, or has another shape or dtype."""
    missing = [str(a) for a in signature.inputs if a.name not in arrays]
    if missing:
        raise UserError(f"expected an array for each input of @{signature.function}, but got none for {missing[0]}")
    found: list[Any] = []
    for k, argument in enumerate(signature.inputs):
        array = np.asarray(arrays[argument.name])
        shape, dtype = signature.shape(k, sizes), argument.dtype
        if shape is None or array.shape != shape:
            got = "x".join(map(str, array.shape)) or "scalar"
            raise UserError(f"expected input {argument} of @{signature.function}, but got shape {got}")
        if array.dtype != dtype and not (wide and dtype.kind in "fV" and array.dtype == np.float64):
            remedy = f"convert it with .astype({dtype.name!r})"
            raise UserError(f"expected input {argument} of @{signature.function}, but got {array.dtype}; {remedy}")
        found.append(np.ascontiguousarray(array).reshape(shape))
    return found


def random_inputs(signature: FunctionSignature, given: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The given arrays, and seeded random ones for the other inputs; open sizes are those of the arrays, or typical."""
    sizes = {**signature.typical(), **signature.symbol_values(given)}
    arrays = dict(given)
    for k, argument in enumerate(signature.inputs):
        if argument.name in arrays:
            continue
        shape = signature.shape(k, sizes)
        if shape is None:
            raise UserError(f"expected an array for input {argument} of @{signature.function}, whose sizes are open")
        array = random_arrays(((shape, argument.dtype.name),), seed + k)[0]
        arrays[argument.name] = narrowed(array) if k in narrow_arguments(signature.func) else array
    if signature.level not in ("graph", "main"):
        arrays |= {name: sizes[name] for name in signature.symbols if name in sizes}
    return arrays


__all__ = [
    "Argument",
    "FunctionSignature",
    "check_inputs",
    "function_named",
    "named_inputs",
    "random_inputs",
    "signature_of",
    "symbol_name",
]
