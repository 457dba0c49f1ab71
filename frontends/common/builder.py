"""
The base of the importers: graph ops emitted into a block, with small constants folded on the way.

A value is an SSA value, or a constant array that becomes an op only where an op needs it: weights end in the
store (`graph.param`), up to 64 elements in the text. An op whose operands are all small constants is evaluated
by its own numpy meaning at once, so that Shape / Gather / Concat / Reshape chains disappear.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Block, SSAValue

from mlc.dialects import graph as g
from mlc.dialects.graph import ConstantOp, GraphOp, ParamOp, name_location, shape_of, tensor
from mlc.dialects.graph.graph_numpy import evaluate
from mlc.dialects.graph.types import element_type, numpy_dtype
from mlc.frontends.common.constants import TooLarge, computed, is_cheap, is_constant
from mlc.frontends.common.counted import COUNTED_HINT, marked, plain, result_count
from mlc.frontends.common.empty import without_elements
from mlc.frontends.common.size_data import SizeData
from mlc.frontends.common.sizes import Span, Undecided, check_sizes, fold_sizes, holds_sizes
from mlc.frontends.common.source_node import NeedsSizes
from mlc.frontends.common.spans import result_span
from mlc.frontends.common.values import Value, ancestors
from mlc.support.weights import WeightStore

FOLD_LIMIT = 4096
"""Elements of the largest array that folding during import makes; larger ones are folded by a graph pass."""

Attributes: TypeAlias = "Mapping[str, Any]"
"""The attributes of an op by name, of the types that the op's class declares."""


class GraphBuilder:
    """The state of one import: the block that ops are emitted into, the weights, and facts about values."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.arguments: dict[SSAValue, str] = {}
        self.weights = WeightStore()
        self.size_data = SizeData(self)
        self.root = self.block = Block()
        self.captures: dict[SSAValue, SSAValue] = {}
        """Arguments of regions -> their initial values."""
        self.undecided: dict[SSAValue, str] = {}
        """Results of comparisons of sizes that are made at run time -> which sizes are compared."""
        self._count = 0

    @property
    def symbol_ranges(self) -> Mapping[str, Span]:
        """The ranges of symbols by which comparisons of sizes are decided."""
        return {}

    def fresh(self, prefix: str) -> str:
        """A name for a constant that the model did not name."""
        self._count += 1
        return f"{prefix}.const{self._count}"

    def emit(self, cls: type[GraphOp], operands: Sequence[Value], attrs: Attributes, location: str) -> list[Value]:
        """The results of an op on values."""
        if any(v.counted is not None for v in operands):
            return self._emit_counted(cls, operands, attrs, location)
        if cls in WIDENED and (narrow := {v.dtype_name for v in operands} & {"float16", "bfloat16"}):
            return self._emit_widened(cls, operands, attrs, location, narrow.pop())
        folded, reason = None, ""
        made = bool(operands) and all(is_constant(v) for v in operands)
        if any(holds_sizes(v.array) for v in operands):
            try:
                folded = self._fold_sizes(cls, operands, attrs, location)
            except Undecided as error:
                reason = str(error)
            if folded is not None:
                return folded
        elif made or (operands and all(v.array is not None and v.array.size <= FOLD_LIMIT for v in operands)):
            folded = self._fold(cls, operands, attrs, location)
            if folded is not None and not any(v.bound for v in operands):
                return folded
        op = cls.make(*(self.materialize(v, location) for v in operands), **attrs, location=location)
        for result in op.results:
            check_sizes(shape_of(result.type), f"{self.source}: {location}")
        if (arrays := without_elements(op)) is not None:
            op.drop_all_references()
            return [Value(None, array, self.fresh(location)) for array in arrays]
        self.block.add_op(op)
        if reason:
            self.undecided[op.results[0]] = reason
        if folded is not None:
            return [Value(r, v.array, location, bound=True) for r, v in zip(op.results, folded, strict=True)]
        span = None
        if len(op.results) == 1 and any(v.span is not None for v in operands):
            span = result_span(cls, operands, lambda ends: self._fold_any(cls, ends, attrs, location))
        return [Value(result, None, location, span=span, made=made) for result in op.results]

    def computed(self, value: Value) -> Any:
        """The array of a value that is computed from constants alone; None of any other."""
        if value.array is None and value.ssa is not None and value.counted is None:
            value.array = computed(value.ssa, self.weights)
        return value.array

    def _emit_counted(
        self, cls: type[GraphOp], operands: Sequence[Value], attrs: Attributes, location: str
    ) -> list[Value]:
        """An op on padded tensors: computed on all elements; the result carries the run-time length on."""
        results = self.emit(cls, [plain(v) for v in operands], attrs, location)
        count = result_count(cls, operands, attrs, results[0].shape)
        if count is None:
            raise NeedsSizes(
                f"expected operands of {cls.name} of sizes known at import, but the data says them{COUNTED_HINT}"
            )
        return [marked(result, count.axis, count.value) for result in results]

    def _emit_widened(
        self, cls: type[GraphOp], operands: Sequence[Value], attrs: Attributes, location: str, narrow: str
    ) -> list[Value]:
        """
        An op of WIDENED on f16 or bf16: computed in f32 and rounded once.

        A product that reads the probabilities of a softmax reads them before rounding (`Value.wide`).
        """

        def cast(value: Value, dtype: str) -> Value:
            if dtype == "float32" and value.wide is not None:
                return value.wide
            return self.emit(g.CastOp, [value], {"dtype": np.dtype(numpy_dtype(element_type(dtype)))}, location)[0]

        wide = [cast(v, "float32") if v.dtype_name == narrow else v for v in operands]
        results = self.emit(cls, wide, attrs, location)
        return [replace(cast(v, narrow), wide=v if cls is g.SoftmaxOp else None) for v in results]

    def sources(self, value: Value) -> set[str]:
        """The names of the model's inputs that a value is computed from."""
        return {self.arguments[v] for v in ancestors(value.ssa, self.captures) if v in self.arguments}

    def why_unknown(self, value: Value) -> str:
        """Which comparison of sizes leaves a value open; nothing where that is the inputs' doing."""
        return next((self.undecided[v] for v in ancestors(value.ssa, self.captures) if v in self.undecided), "")

    def _fold_sizes(
        self, cls: type[GraphOp], operands: Sequence[Value], attrs: Attributes, location: str
    ) -> list[Value] | None:
        """The results of an op on sizes that are symbolic; None of an op that needs them as data."""
        if not all(v.array is not None for v in operands):
            return None
        names = ["int64" if v.array.dtype.kind in "iuO" else v.dtype_name for v in operands]
        types = [tensor(v.array.shape, name) for v, name in zip(operands, names, strict=True)]
        stand_ins = [ParamOp.make(result=t, entry="") for t in types]
        op: GraphOp = cls.make(*(s.result for s in stand_ins), **attrs)
        try:
            folded = fold_sizes(op, [v.array for v in operands], self.symbol_ranges)
        finally:
            op.drop_all_references()
        return None if folded is None else [Value(None, array, self.fresh(location)) for array in folded]

    def _fold_any(
        self, cls: type[GraphOp], operands: Sequence[Value], attrs: Attributes, location: str
    ) -> list[Value] | None:
        fold = self._fold_sizes if any(holds_sizes(v.array) for v in operands) else self._fold
        return fold(cls, operands, attrs, location)

    def _fold(
        self, cls: type[GraphOp], operands: Sequence[Value], attrs: Attributes, location: str
    ) -> list[Value] | None:
        """The op's results by numpy, if they are small, and cheap where its operands are not; None otherwise."""
        stand_ins = [ParamOp.make(result=tensor(v.shape, v.dtype_name), entry="") for v in operands]
        op: GraphOp = cls.make(*(s.result for s in stand_ins), **attrs)
        sizes = [math.prod(shape_of(result.type)) for result in op.results]
        if any(not isinstance(size, int) or size > FOLD_LIMIT for size in sizes):
            return None
        if not is_cheap(op) and any(math.prod(v.shape) > FOLD_LIMIT for v in operands):
            return None
        try:
            arrays = evaluate(op, [self.computed(v) for v in operands])
        except TooLarge:
            return None
        op.drop_all_references()
        return [Value(None, array, self.fresh(location)) for array in arrays]

    def materialize(self, value: Value, location: str) -> SSAValue:
        """The SSA value of a value; a constant becomes graph.constant or graph.param, once, at the top."""
        if value.ssa is None:
            array = value.known
            if holds_sizes(array):
                value.ssa = self.size_data.tensor(array, location)
                return value.ssa
            if array.size <= ConstantOp.MAX_ELEMENTS:
                op = ConstantOp.make(array, location=name_location(value.name))
            else:
                entry = self.weights.add(self.weights.fresh(value.name), array)
                op = ParamOp.make(result=tensor(array.shape, array.dtype), entry=entry, location=value.name)
            self.root.add_op(op)
            value.ssa = op.result
        return value.ssa


WIDENED = frozenset(
    {
        g.AvgPool2dOp, g.BatchMatmulOp, g.BatchNormOp, g.Conv2dOp, g.Conv2dTransposeOp, g.DenseOp, g.GeluOp,
        g.InstanceNormOp, g.CumulativeOp, g.LayerNormOp, g.LogSoftmaxOp, g.MeanOp, g.ProdOp, g.SiluOp, g.SoftmaxOp,
        g.SumOp,
    }
)  # fmt: skip
"""Ops that accumulate many terms: on f16 and bf16 operands they are computed in f32 and rounded once."""


def hoist_sources(block: Block) -> None:
    """Move weights and constants to the top of a block."""
    sources = [op for op in block.ops if isinstance(op, ParamOp | ConstantOp)]
    for op in sources:
        op.detach()
    first = block.first_op
    for op in sources:
        if first is None:
            block.add_op(op)
        else:
            block.insert_op_before(op, first)
