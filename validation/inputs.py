"""Inputs and weights on which functions are run: recorded ones, or random ones whose results say something."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from mlc.dialects.constants import narrow_arguments
from mlc.dialects.graph import CallOp, GraphOp, ParamOp
from mlc.dialects.symbol_lookup import lookup_symbol
from mlc.support.dtypes import dtype_of
from mlc.validation.execute import Types, types_of


@dataclass
class Recorded:
    """The arguments of a call: arrays, and the values of the symbols."""

    arrays: list[Any]
    sizes: dict[str, int] = field(default_factory=dict)


@dataclass
class RandomWeights:
    """Random weights for a module without a store, seeded by name; variances of norms are positive."""

    module: ModuleOp
    seed: int = 0
    _made: dict[str, Any] = field(default_factory=dict)

    def array(self, name: str) -> Any:
        """The weight of this name; ValueError if no op of the module reads it."""
        if name not in self._made:
            self._made[name] = self._draw(name)
        return self._made[name]

    def _draw(self, name: str) -> Any:
        for op in self.module.walk():
            if isinstance(op, ParamOp) and op.entry == name:
                types = types_of([op.results[0].type])
                positive = any("norm" in use.operation.name for use in op.results[0].uses)
                if types is not None:
                    (array,) = random_arrays(types, self.seed + zlib.crc32(name.encode()), positive)
                    array = narrowed(array) if _is_narrow(op.results[0]) else array
                    return scaled_weight(array, op.results[0])
        raise ValueError(f"expected a graph.param of {name!r} with a static shape")


def _is_narrow(weight: SSAValue) -> bool:
    """Whether a kernel that reads a weight calls it narrow."""
    calls = [(use.index, use.operation) for use in weight.uses]
    kernels = [(index, lookup_symbol(op, op.callee)) for index, op in calls if isinstance(op, CallOp)]
    return any(kernel is not None and index in narrow_arguments(kernel) for index, kernel in kernels)


def scaled_weight(array: Any, value: SSAValue) -> Any:
    """A random array times 1 / sqrt(fan-in) if it is the weight of contractions, so that deep models stay finite."""
    uses = [use for use in value.uses if use.index > 0 and isinstance(use.operation, GraphOp)]
    terms = max((op.reduction_length() for use in uses if isinstance(op := use.operation, GraphOp)), default=1)
    if terms <= 1 or array.dtype.kind not in "fV":
        return array
    return (array.astype(np.float64) / np.sqrt(terms)).astype(array.dtype)


def fits(arrays: Sequence[Any], types: Types) -> bool:
    """Whether arrays have these shapes and dtypes."""
    return [(a.shape, a.dtype.name) for a in arrays] == list(types)


def fitted(arrays: Sequence[Any], types: Types) -> list[Any] | None:
    """The arrays, integers with the signedness of these types; None if they have other shapes or dtypes."""
    if len(arrays) != len(types):
        return None
    found: list[Any] = []
    for array, (_, name) in zip(arrays, types, strict=True):
        own = dtype_of(name)
        same = array.dtype.kind in "iu" and own.kind in "iu" and array.dtype.itemsize == own.itemsize
        found.append(array.view(own) if same and array.dtype != own else array)
    return found if fits(found, types) else None


def random_inputs(func: Operation, types: Types, seed: int) -> list[Any]:
    """Random arrays for the arguments of a function; those that are weights of contractions are scaled."""
    arrays = random_arrays(types, seed)
    for number in narrow_arguments(func):
        arrays[number] = narrowed(arrays[number])
    if func.name != "func.func":
        return arrays
    arguments = func.regions[0].block.args
    return [scaled_weight(array, value) for array, value in zip(arrays, arguments, strict=True)]


def narrowed(array: Any) -> Any:
    """Bytes over their whole range as bytes from -64 to 63, for arguments that a kernel calls narrow."""
    return array >> 1


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
