"""Which contractions a target multiplies faster in narrow floats than in f32."""

from __future__ import annotations

from math import prod
from typing import TypeAlias

from xdsl.dialects.builtin import bf16

from mlc.dialects.graph import Conv2dOp, DenseOp, shape_of, static_shape
from mlc.dialects.loop import word_factors
from mlc.passes.graph.shared.blocks import words_block
from mlc.passes.graph.shared.constants import is_static
from mlc.targets.cost.thresholds import MATRIX_LEAST_ROWS, MATRIX_LEAST_WORDS
from mlc.targets.matrix import MATRIX_ROW, multiplies_matrices
from mlc.targets.target import Target

Contraction: TypeAlias = Conv2dOp | DenseOp

DOT_PRODUCTS = {"bf16": "dpbf16ps"}
"""Narrow float type -> the dot-product instruction for it; `Target.instructions` has those of a target."""
WORD_FACTORS = word_factors(bf16)


def multiplies_narrow(precision: str, target: Target) -> bool:
    """Whether a target multiplies a narrow float type faster than f32: by vectors, or by matrices."""
    return has_fast_dots(precision, target) or multiplies_matrices(precision, target)


def has_fast_dots(precision: str, target: Target) -> bool:
    """Whether vectors have dot products of a narrow float type with more products in a cycle than FMAs of f32."""
    fast = WORD_FACTORS * target.core.bf16_dots_per_cycle > target.core.fmas_per_cycle
    return fast and DOT_PRODUCTS.get(precision) in target.instructions


def is_faster_narrow(op: Contraction, precision: str, target: Target) -> bool:
    """Whether a target multiplies an op's factors faster in a narrow float type, if pairs of channels fill words."""
    if has_fast_dots(precision, target):
        return True
    return multiplies_matrices(precision, target) and fills_matrices(op, precision)


def fills_matrices(op: Contraction, precision: str) -> bool:
    """Whether an op of known sizes has as many rows and words as pay in a matrix unit."""
    if not all(is_static(shape_of(type)) for type in (op.type, op.operands[1].type)):
        return False
    sizes, weight = static_shape(op.type), static_shape(op.operands[1].type)
    rows, inputs = (sizes[3], weight[1]) if isinstance(op, Conv2dOp) else (prod(sizes[:-1]), weight[-1])
    if isinstance(op, Conv2dOp) and op.groups > 1 and inputs % WORD_FACTORS == 0:
        inputs = words_block(inputs, MATRIX_ROW[precision], WORD_FACTORS)
    return rows >= MATRIX_LEAST_ROWS and inputs >= MATRIX_LEAST_WORDS * WORD_FACTORS
