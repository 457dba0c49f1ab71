"""
The reference interpreter of the te dialect: each stage over its whole index grid at once, in numpy.

Axes are open grids (`numpy.ogrid`), so that a value has only the dimensions on which it depends. Grids of more than
`CHUNK_POINTS` points are split along the first axis. Reads outside of a tensor raise an InterpreterError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects import te
from mlc.dialects.combiner import COMBINERS, PAIR_COMBINERS
from mlc.dialects.graph.types import element_of
from mlc.dialects.index import Index
from mlc.dialects.scalar import CASTS, predicate_of
from mlc.dialects.te_extern import ExternOp
from mlc.interp import values as meaning
from mlc.interp.errors import InterpreterError, NotInterpreted
from mlc.interp.extern import run_extern
from mlc.interp.observe import Observe
from mlc.support.arithmetic import OWN, Arithmetic

Array = Any
CHUNK_POINTS = 10_000_000
"""Points of an index grid that are evaluated at once."""


def run(
    func: te.FuncOp, inputs: Sequence[Any], *, arithmetic: Arithmetic = OWN, observe: Observe | None = None
) -> list[Array]:
    """The kernel's results, computed in an arithmetic; `observe` is called after each stage."""
    if len(inputs) != len(func.args):
        raise ValueError(f"expected {len(func.args)} inputs of @{func.sym_name.data}, but got {len(inputs)}")
    tensors: dict[SSAValue, Any] = {}
    for k, (arg, value) in enumerate(zip(func.args, inputs, strict=True)):
        tensors[arg] = _input(func, k, arg.type, value, arithmetic)
    with np.errstate(all="ignore"):
        for op in func.body.block.ops:
            if isinstance(op, te.ReturnOp):
                continue
            results = _results(op, tensors, arithmetic)
            tensors.update(zip(op.results, results, strict=True))
            if observe is not None:
                observe(op, results)
    return [tensors[v].copy() if v in func.args else tensors[v] for v in func.return_op.values]


def _input(func: te.FuncOp, k: int, t: Attribute, value: ArrayLike, arithmetic: Arithmetic) -> int | Array:
    if isinstance(t, IndexType):
        return int(np.asarray(value))
    assert isinstance(t, TensorType)
    array = np.asarray(value)
    plain, dtype = meaning.dtype_of(t.element_type), meaning.dtype_for(t.element_type, arithmetic)
    shape = tuple(t.get_shape())
    same = array.ndim == len(shape) and all(n < 0 or n == m for n, m in zip(shape, array.shape, strict=True))
    if not same or array.dtype not in (plain, dtype):
        raise ValueError(
            f"expected input {k} of @{func.sym_name.data} with shape {shape} and dtype {plain}, "
            f"but got {array.shape} and {array.dtype}"
        )
    return array.astype(dtype, copy=False)


def _results(op: Operation, tensors: dict[SSAValue, Any], arithmetic: Arithmetic) -> list[Array]:
    """The tensors that an op of a kernel gives."""
    if isinstance(op, te.ComputeOp):
        return _Stage(op, tensors, arithmetic).run()
    if isinstance(op, te.ScanOp):
        return _scan(op, tensors, arithmetic)
    if isinstance(op, ExternOp):
        return run_extern(op, [tensors[v] for v in op.inputs], [tensors[s] for s in op.symbols], arithmetic)
    if isinstance(op, te.TableOp):
        return [_table(op, arithmetic)]
    raise NotInterpreted(f"the te interpreter has no meaning for {op.name}")


def _table(op: te.TableOp, arithmetic: Arithmetic) -> Array:
    """The numbers of a table."""
    return meaning.dense(op.value, arithmetic)


def _scan(op: te.ScanOp, tensors: dict[SSAValue, Any], arithmetic: Arithmetic) -> list[Array]:
    """The states of a scan: all steps, each computed from those before."""
    steps, first = int(op.extent.evaluate([tensors[s] for s in op.symbols])), op.first_step
    if steps < first:
        raise InterpreterError(f"expected at least the {first} first steps of '{op.stage_name}', but got {steps}")
    known = dict(tensors)
    for state, update, init in zip(op.states, op.yield_op.values, op.inits, strict=True):
        start = tensors[init]
        known[state] = known[update] = np.empty((steps, *start.shape[1:]), start.dtype)
        known[state][:first] = start
    for step in range(first, steps):
        for stage in op.stages:
            for result, part in zip(stage.results, _Stage(stage, known, arithmetic).part(step, step + 1), strict=True):
                whole = known.get(result)
                if whole is None:
                    whole = known[result] = np.empty((steps, *part.shape[1:]), part.dtype)
                whole[step] = part[0]
    return [known[state] for state in op.states]


class _Stage:
    """One stage: its axes as open grids, its values as arrays of the stage's rank that broadcast."""

    def __init__(self, stage: te.ComputeOp, tensors: dict[SSAValue, Any], arithmetic: Arithmetic) -> None:
        self.stage, self.tensors, self.arithmetic = stage, tensors, arithmetic
        symbols = [tensors[s] for s in stage.symbols]
        self.extents = [int(e.evaluate(symbols)) for e in stage.extents.data]
        self.rank = len(self.extents)
        self.values: dict[SSAValue, Any] = {}
        self.product = _product(stage)

    def run(self) -> list[Array]:
        points = self._points()
        n = self.stage.num_spatial
        if points <= CHUNK_POINTS or not n or self.extents[0] < 2:
            return self.part(0, self.extents[0] if self.extents else 0)
        step = max(1, CHUNK_POINTS * self.extents[0] // points)
        parts = [self.part(a, min(a + step, self.extents[0])) for a in range(0, self.extents[0], step)]
        return [np.concatenate(p) for p in zip(*parts, strict=True)]

    def _points(self) -> int:
        """The number of elements of the largest array: the grid, or the larger factor of a contraction."""
        if self.product is None:
            return math.prod(self.extents)
        sizes = dict(zip(self.stage.axes, self.extents, strict=True))
        reads = [op for op in self.stage.body.block.ops if isinstance(op, te.ReadOp)]
        return max(math.prod(sizes.get(v, 1) for v in read.indices) for read in reads) if reads else 1

    def part(self, start: int, stop: int) -> list[Array]:
        """The results from `start` to `stop` on the first axis."""
        extents = [stop - start, *self.extents[1:]] if self.extents else []
        self.values = dict(self.tensors)
        for k, (axis, extent) in enumerate(zip(self.stage.axes, extents, strict=True)):
            grid = np.arange(extent) + (start if k == 0 else 0)
            self.values[axis] = grid.reshape([-1 if a == k else 1 for a in range(self.rank)])
        for op in self.stage.body.block.ops:
            if op is self.product:
                continue
            if isinstance(op, te.YieldOp):
                if self.product is not None:
                    return [self._contract(self.product, extents)]
                return self._finish([self.values[v] for v in op.values], extents)
            self.values[op.results[0]] = MEANING[type(op)](self, op) if type(op) in MEANING else self._plain(op)
        raise InterpreterError("expected te.yield at the end of a stage")

    def _plain(self, op: Operation) -> Any:
        function = meaning.function(op.name, self.arithmetic)
        if function is None:
            raise NotInterpreted(f"the te interpreter has no meaning for {op.name}")
        return function(*(self.values[v] for v in op.operands))

    def _finish(self, yielded: list[Any], extents: list[int]) -> list[Array]:
        n = self.stage.num_spatial
        dtypes = [meaning.dtype_for(element_of(r), self.arithmetic) for r in self.stage.results]
        full = [np.broadcast_to(v, extents).astype(t, copy=False) for v, t in zip(yielded, dtypes, strict=True)]
        if self.stage.combiner is None:
            return [np.array(v, order="C") for v in full]
        name = self.stage.combiner.data
        if (reducer := self.stage.reducer) is not None:
            return self._combine(reducer, full, dtypes)
        if name in PAIR_COMBINERS:
            return _best(PAIR_COMBINERS[name], full, n)
        axes = tuple(range(n, self.rank))
        element = element_of(self.stage.results[0])
        return [_fold(name, full[0], axes, COMBINERS[name].identity(element))]

    def _combine(self, reducer: te.CustomReducer, full: list[Any], dtypes: Sequence[Any]) -> list[Array]:
        """The values combined by a reducer of the stage's own, in the order of the reduction axes."""
        n = self.stage.num_spatial
        kept = full[0].shape[:n]
        flat = [v.reshape(*kept, -1) for v in full]
        constants = [self.arithmetic.constant(_number(a), t) for a, t in zip(reducer.identity, dtypes, strict=True)]
        found = [np.full(kept, c, t) for c, t in zip(constants, dtypes, strict=True)]
        block = reducer.region.block
        for k in range(flat[0].shape[-1]):
            self.values.update(zip(block.args, [*found, *(v[..., k] for v in flat)], strict=True))
            for op in block.ops:
                if isinstance(op, te.YieldOp):
                    break
                self.values[op.results[0]] = MEANING[type(op)](self, op) if type(op) in MEANING else self._plain(op)
            yielded = [self.values[v] for v in reducer.region.block.last_op.operands]  # pyright: ignore[reportOptionalMemberAccess] verified
            found = [np.broadcast_to(v, kept).astype(t, copy=False) for v, t in zip(yielded, dtypes, strict=True)]
        return [np.array(v, order="C") for v in found]

    def _contract(self, product: arith.MulfOp, extents: list[int]) -> Array:
        """The sum of products as one einsum; floats narrower than f32 are summed in f32."""
        n = self.stage.num_spatial
        dtype = meaning.dtype_for(product.result.type, self.arithmetic)
        factors: list[Any] = []
        used: set[int] = set()
        for value in product.operands:
            array = np.asarray(self.values[value])
            array = array.reshape((1,) * (self.rank - array.ndim) + array.shape)
            axes = [k for k in range(self.rank) if array.shape[k] == extents[k] != 1]
            used.update(axes)
            array = array.reshape([extents[k] for k in axes])
            factors += [array.astype(np.result_type(dtype, np.float32) if dtype.kind == "f" else np.float32), axes]
        kept = [k for k in range(n) if k in used]
        total = np.einsum(*factors, kept, optimize=True)
        again = math.prod(e for k, e in enumerate(extents) if k >= n and k not in used)
        shape = [extents[k] if k in used else 1 for k in range(n)]
        return np.array(np.broadcast_to((total * again).reshape(shape), extents[:n]).astype(dtype), order="C")

    def index(self, expr: Index, operands: Sequence[SSAValue]) -> Any:
        """The value of an index expression on the grid."""
        return np.asarray(expr.evaluate([self.values[v] for v in operands]))


def _product(stage: te.ComputeOp) -> arith.MulfOp | None:
    """The product that a contraction sums; None if the stage is no contraction."""
    if stage.combiner is None or stage.combiner.data != "sum":
        return None
    value = stage.yield_op.values[0]
    owner = value.owner
    return owner if isinstance(owner, arith.MulfOp) and value.uses.get_length() == 1 else None


def _fold(name: str, value: Array, axes: tuple[int, ...], identity: float) -> Array:
    function = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[name]
    if value.dtype == np.bool_ and name in ("max", "min"):
        function = {"max": np.logical_or, "min": np.logical_and}[name]
    kept = value.shape[: value.ndim - len(axes)]
    if 0 in value.shape:
        return np.full(kept, identity, value.dtype)
    return np.asarray(function.reduce(value, axis=axes, dtype=value.dtype))


def _best(kind: str, pair: list[Array], n: int) -> list[Array]:
    """The best value, and the lowest index at which it occurs."""
    value, index = (v.reshape(*v.shape[:n], -1) for v in pair)
    best = (np.max if kind == "max" else np.min)(value, axis=-1, keepdims=True)
    first = np.where(value == best, index, np.iinfo(index.dtype).max).min(axis=-1)
    return [best[..., 0], first]


def _read(stage: _Stage, op: te.ReadOp) -> Any:
    tensor = stage.values[op.tensor]
    at = [stage.index(e, op.indices) for e in op.map.data]
    if op.mask is None:
        _check(op, at, tensor.shape, True)
        return tensor[tuple(at)] if at else tensor[()]
    valid = np.asarray(True)
    for expr in op.mask.data:
        valid = valid & (stage.index(expr, op.indices) >= 0)
    _check(op, at, tensor.shape, valid)
    inside = tuple(np.where(valid, i, 0) for i in at)
    value = tensor[inside] if 0 not in tensor.shape else np.zeros((), tensor.dtype)
    return np.where(valid, value, stage.values[op.rest[-1]]).astype(tensor.dtype, copy=False)


def _check(op: te.ReadOp, at: Sequence[Array], shape: Sequence[int], valid: Array | bool) -> None:
    for axis, (index, size) in enumerate(zip(at, shape, strict=True)):
        wrong = ((index < 0) | (index >= size)) & valid
        if np.any(wrong):
            bad = np.broadcast_to(index, wrong.shape)[wrong].flat[0]
            raise InterpreterError(
                f"te.read of %{op.tensor.name_hint or '?'} at {bad} on axis {axis}, which has {size} elements"
            )


def _constant(stage: _Stage, op: arith.ConstantOp) -> Any:
    dtype = meaning.dtype_of(op.result.type)
    number = _number(op.value)
    return stage.arithmetic.constant(int(number) & 1 if dtype == np.bool_ else number, dtype)


def _number(value: Attribute) -> int | float:
    """The number of a constant."""
    assert isinstance(value, IntegerAttr | FloatAttr)
    return value.value.data


def _compare(stage: _Stage, op: arith.CmpfOp | arith.CmpiOp) -> Any:
    compare = meaning.comparison(predicate_of(op), stage.arithmetic)
    if compare is None:
        raise NotInterpreted(f"the te interpreter has no meaning for {op}")
    return compare(stage.values[op.lhs], stage.values[op.rhs])


def _select(stage: _Stage, op: arith.SelectOp) -> Any:
    return meaning.where(*(stage.values[v] for v in op.operands))


def _cast(stage: _Stage, op: Operation) -> Any:
    cast = meaning.cast(CASTS[type(op)].data, op.results[0].type, stage.arithmetic)
    return np.asarray(cast(np.asarray(stage.values[op.operands[0]])))


MEANING: dict[type[Operation], Callable[[_Stage, Any], Any]] = {
    te.ReadOp: _read,
    te.IndexOp: lambda stage, op: stage.index(op.map.data[0], op.args),
    arith.ConstantOp: _constant,
    arith.CmpfOp: _compare,
    arith.CmpiOp: _compare,
    arith.SelectOp: _select,
    **dict.fromkeys(CASTS, _cast),
}
