"""The arguments of a kernel's calls: arrays of its shapes, the sizes that they imply, and how they lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IndexType, IntegerAttr, MemRefType, TensorType
from xdsl.ir import Attribute

from mlc.dialects import loop, te
from mlc.dialects.attributes import KERNEL_BUFFERS, KERNEL_LEAST, KERNEL_SIZES, KERNEL_SYMBOLS, KERNEL_UNSIGNED
from mlc.dialects.constants import integers
from mlc.dialects.graph.dims import Dim, DimExpr, SymbolAttr
from mlc.dialects.index import IndexMapAttr
from mlc.driver.describe.symbolic import encoded
from mlc.driver.operator.binds import argument_sizes, index_arguments, tensor_names
from mlc.runtime.arrays import TensorSpec, address_of, as_array, check_array
from mlc.runtime.sizes import UNBOUNDED_SIZE, Size, Sizes, evaluate, text
from mlc.support.dtypes import dtype_of
from mlc.support.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Kernel: TypeAlias = te.FuncOp | loop.FuncOp
Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Out: TypeAlias = "Array | Sequence[Array]"
"""The array to write the one output into, or one for each output."""
_DTYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i1": "bool", "index": "int64"}


@dataclass(frozen=True)
class MemoryLayout:
    """How an array must lie in memory: strides (numbers or names) and offset in elements, alignment in bytes."""

    strides: tuple[int | str, ...] | None = None
    offset: int = 0
    align: int = 1

    def check(self, what: str, array: Array, values: dict[str, int]) -> None:
        """ValueError unless the array lies so; a named stride is added to `values`, or must be the one there."""
        if address_of(array) % self.align:
            raise ValueError(f"expected {what} at a multiple of {self.align} bytes, but got {address_of(array):#x}")
        if self.offset and (begins := _begins_at(array)) != self.offset:
            raise ValueError(f"expected {what} to begin {self.offset} elements into its memory, but got {begins:g}")
        if self.strides is None:
            if not array.flags.c_contiguous:
                raise ValueError(f"expected {what} to be contiguous, but got strides {_in_elements(array)} in elements")
            return
        natural = prod(array.shape)
        for axis, (wanted, size) in enumerate(zip(self.strides, array.shape, strict=True)):
            natural = natural // size if size else 1
            step, rest = divmod(array.strides[axis], array.itemsize)
            if size < 2:  # such an axis has no neighbours
                step, rest = values.get(wanted, natural) if isinstance(wanted, str) else wanted, 0
            known = values.setdefault(wanted, step) if isinstance(wanted, str) else wanted
            if rest or step < 1 or step != known:
                names = "(" + ", ".join(map(str, self.strides)) + ")"
                said = f" where {wanted} is {known}" if isinstance(wanted, str) and step >= 1 else ""
                got = _in_elements(array)
                raise ValueError(f"expected {what} with strides {names} in elements{said}, but got {got}; pass a copy")

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any], values: dict[str, int]) -> Array:
        """A new array that lies so."""
        strides: list[int] = []
        natural = 1
        for step, size in zip(reversed(self.strides or ("",) * len(shape)), reversed(shape), strict=True):
            known = natural if not step else values.setdefault(step, natural) if isinstance(step, str) else step
            strides.insert(0, known)
            natural = max(natural, known * size)
        count = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if prod(shape) else 0
        extra = -(-self.align // dtype.itemsize)
        memory = np.empty(self.offset + count + extra, dtype)
        first = self.offset + (-(address_of(memory) + self.offset * dtype.itemsize) % self.align) // dtype.itemsize
        steps = [s * dtype.itemsize for s in strides]
        made = np.ndarray(tuple(shape), dtype, memory.data, first * dtype.itemsize, steps)
        return made


def _begins_at(array: Array) -> float:
    """The offset, in elements, of an array in the memory that it is a slice of."""
    base: Any = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    return (address_of(array) - address_of(base)) / max(array.itemsize, 1)


def _in_elements(array: Array) -> tuple[float, ...]:
    return tuple(s // array.itemsize if s % array.itemsize == 0 else s / array.itemsize for s in array.strides)


class KernelArguments:
    """What the arrays and the sizes of a kernel's call must be."""

    def __init__(self, kernel: Kernel) -> None:
        names, types = _tensors(kernel)
        outputs = len(tensor_names(kernel)[1])
        first = len(types) - outputs
        self.shapes = _shapes(kernel, types)
        unsigned = integers(kernel.attributes.get(KERNEL_UNSIGNED)) or ()
        parts = zip(names, types, self.shapes, strict=True)
        specs = [_spec(n, t, s, k in unsigned) for k, (n, t, s) in enumerate(parts)]
        self.inputs, self.outputs = specs[:first], specs[first:]
        self.layouts = _layouts(kernel, len(types))
        self.sizes = [encoded(n) for n in argument_sizes(kernel)]
        """The kernel's size arguments, over the symbols and the names of strides."""
        self.dtypes = [dtype_of(spec.dtype) for spec in specs]
        self.is_static = not self.sizes and all(layout is None for layout in self.layouts)
        rows = [[n.name, s, n.dtype] for n, s in zip(specs, self.shapes, strict=True)]
        strides = {
            s for layout in self.layouts if layout is not None for s in layout.strides or () if s.__class__ is str
        }
        model = {"symbols": _symbols(kernel, strides), "inputs": rows[:first], "outputs": rows[first:], "buffers": []}
        self._sizes = Sizes(model)
        unknown = {s.name for s in self._sizes.symbols} - {row[0] for row in self._sizes.order}
        if unknown:
            one = min(unknown)
            raise UserError(
                f"expected '{one}' to be a size of an input, alone or in a sum with known sizes: the arrays tell it"
            )

    def bind(self, inputs: Sequence[ArrayLike], out: Out | None, name: str) -> tuple[list[Array], list[int]]:
        """The arrays of a call, outputs behind inputs, and its size arguments; ValueError if an array does not fit."""
        if len(inputs) != len(self.inputs):
            raise ValueError(f"expected {len(self.inputs)} inputs of '{name}', but got {len(inputs)}")
        arrays = [as_array(f"input '{spec.name}'", a) for a, spec in zip(inputs, self.inputs, strict=True)]
        if not self._sizes.symbols:
            for array, spec in zip(arrays, self.inputs, strict=True):
                check_array(f"input '{spec.name}'", array, spec)
        known = self._sizes.bind([a.shape for a in arrays])
        values = dict(known.values)
        for k, (array, spec) in enumerate(zip(arrays, self.inputs, strict=True)):
            check_array(f"input '{spec.name}'", array, TensorSpec(spec.name, array.shape, spec.dtype))
            layout = self.layouts[k]
            if layout is not None:
                layout.check(f"input '{spec.name}'", array, values)
            elif not array.flags.c_contiguous:
                arrays[k] = np.ascontiguousarray(array)
        arrays += self._results(out, known.outputs, values)
        return arrays, [evaluate(size, values) for size in self.sizes]

    def _results(self, out: Out | None, shapes: Sequence[tuple[int, ...]], values: dict[str, int]) -> list[Array]:
        """The arrays to write into."""
        layouts = self.layouts[len(self.inputs) :]
        if out is None:
            parts = zip(self.outputs, shapes, layouts, strict=True)
            return [(w or MemoryLayout()).empty(shape, dtype_of(spec.dtype), values) for spec, shape, w in parts]
        written: list[Any] = list(out) if isinstance(out, list | tuple) else [out]
        if len(written) != len(self.outputs):
            raise ValueError(f"expected {len(self.outputs)} arrays in out, but got {len(written)}")
        given = [_written(array, spec) for array, spec in zip(written, self.outputs, strict=True)]
        for array, spec, shape, layout in zip(given, self.outputs, shapes, layouts, strict=True):
            check_array(f"output '{spec.name}'", array, TensorSpec(spec.name, shape, spec.dtype))
            if not array.flags.writeable or (layout is None and not array.flags.c_contiguous):
                raise ValueError(f"expected output '{spec.name}' to be a contiguous array that can be written")
            if layout is not None:
                layout.check(f"output '{spec.name}'", array, values)
        return given


def _written(value: object, spec: TensorSpec) -> Array:
    """The memory of an array that was given for an output."""
    what = f"output '{spec.name}'"
    if not hasattr(value, "__dlpack__"):  # numpy would make an array of it that nobody sees
        raise ValueError(f"expected {what} to be an array, but got {type(value).__name__}")
    return as_array(what, value)


def _tensors(kernel: Kernel) -> tuple[list[str], list[Attribute]]:
    """The names and the types of the inputs, then of the outputs."""
    types = [a.type for a in kernel.args if not isinstance(a.type, IndexType)]
    if isinstance(kernel, te.FuncOp):
        types += list(kernel.function_type.outputs)
    names = tensor_names(kernel)
    return [*names[0], *(names[1] if isinstance(kernel, loop.FuncOp) else _numbered(len(names[1])))], types


def _numbered(count: int) -> list[str]:
    return [f"output{k}" for k in range(count)]


def _shapes(kernel: Kernel, types: Sequence[Attribute]) -> list[list[Size]]:
    """The shapes of all tensors, over the symbols."""
    values = argument_sizes(kernel)
    rows = kernel.attributes.get(KERNEL_SIZES)
    given = rows.data if isinstance(rows, ArrayAttr) else ()
    shapes: list[list[Size]] = []
    for k, t in enumerate(types):
        if not isinstance(t, TensorType | MemRefType):
            raise UserError(f"expected operands that are tensors or memrefs, but got {t}")
        row = given[k] if k < len(given) else None
        if isinstance(row, IndexMapAttr):
            sizes: list[Dim] = [e.evaluate(values) for e in row.data]
            shapes.append([encoded(n) for n in sizes])
        elif any(n < 0 for n in t.get_shape()):
            raise UserError(f"expected the kernel's attribute 'sizes' to say the open sizes, but got {t} without it")
        else:
            shapes.append(list(t.get_shape()))
    return shapes


def _symbols(kernel: Kernel, strides: set[Any]) -> list[tuple[str, int, int, int]]:
    """The symbols of the kernel's shapes with their ranges: (name, low, high, step)."""
    declared = kernel.attributes.get(KERNEL_SYMBOLS)
    ranges: dict[str, Attribute] = dict(declared.data) if isinstance(declared, DictionaryAttr) else {}
    least = integers(kernel.attributes.get(KERNEL_LEAST)) or ()
    found: dict[str, tuple[str, int, int, int]] = {}
    used = _used(kernel)
    for k, size in enumerate(argument_sizes(kernel)):
        for name in size.symbols():
            known = ranges.get(str(name))
            low = least[k] if k < len(least) and size == DimExpr.symbol(name) else 1
            if isinstance(known, SymbolAttr):
                found[str(name)] = (str(name), known.low.data, min(known.high.data, UNBOUNDED_SIZE), known.step.data)
            elif str(name) not in strides or k in used:
                found.setdefault(str(name), (str(name), max(low, 0), UNBOUNDED_SIZE, 1))
    return list(found.values())


def _used(kernel: Kernel) -> set[int]:
    """The numbers of the index arguments that shapes use."""
    rows = kernel.attributes.get(KERNEL_SIZES)
    given = rows.data if isinstance(rows, ArrayAttr) else ()
    return {d for row in given if isinstance(row, IndexMapAttr) for e in row.data for d in e.dims()}


def _layouts(kernel: Kernel, count: int) -> list[MemoryLayout | None]:
    """How each array lies in memory; None where nothing is said."""
    rows = kernel.attributes.get(KERNEL_BUFFERS)
    if not isinstance(rows, ArrayAttr):
        return [None] * count
    names = argument_sizes(kernel)
    return [_layout(row, names) if isinstance(row, DictionaryAttr) else None for row in rows.data]


def _layout(row: DictionaryAttr, names: Sequence[DimExpr]) -> MemoryLayout:
    strides, offset, align = row.data.get("strides"), row.data.get("offset"), row.data.get("align")
    steps = None
    if isinstance(strides, IndexMapAttr):
        steps = tuple(e.const if e.is_const else str(e.evaluate(names)) for e in strides.data)
    return MemoryLayout(
        steps,
        offset.value.data if isinstance(offset, IntegerAttr) else 0,
        align.value.data if isinstance(align, IntegerAttr) else 1,
    )


def _spec(name: str, type_: Attribute, shape: Sequence[Size], unsigned: bool) -> TensorSpec:
    assert isinstance(type_, TensorType | MemRefType)
    element = str(type_.element_type)
    dtype = _DTYPES.get(element) or element.replace("ui", "uint").replace("si", "int")
    dtype = dtype.replace("i", "int") if dtype[0] == "i" and dtype[1:].isdigit() else dtype
    return TensorSpec(name, tuple(map(text, shape)), f"u{dtype}" if unsigned else dtype)


__all__ = ["Array", "Kernel", "KernelArguments", "MemoryLayout", "Out", "index_arguments"]
