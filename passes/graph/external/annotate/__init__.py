"""graph-annotate: the ops that external compilers take over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, TensorType, i64
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from mlc.dialects.attributes import OFFLOAD_COMPILER, OFFLOAD_MATCH, OFFLOAD_PATTERN
from mlc.dialects.graph import DimsAttr
from mlc.passes.graph.external.annotate.compilers import ExternalCompiler, compiler_names, compiler_of
from mlc.passes.graph.external.annotate.patterns import PatternMatch, first_match
from mlc.passes.graph.simplify.fold_constant import FoldConstantPass
from mlc.passes.rewriting import functions, outer_blocks
from mlc.support.errors import warn


@dataclass(frozen=True)
class AnnotatePass(ModulePass):
    """
    Mark the ops that match a pattern of external compilers, `compiler=toy+dnnl`: the first named one is preferred.

    `%1 = graph.dense %x, %w; %2 = graph.relu %1`
    -> the same with `{offload.compiler = "toy", offload.pattern = "dense_relu", offload.match = 0 : i64}` on both

    Constants are folded before. Ops of open sizes go to compilers that declare `open_sizes`; a warning says how many
    matches of others stay mlc's.
    """

    name = "graph-annotate"

    compiler: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        compilers = [compiler_of(name) for name in compiler_names(self.compiler)]
        if not compilers:
            return
        FoldConstantPass().apply(ctx, op)
        numbers = count()
        for function in functions(op):
            for block in outer_blocks(function):
                _annotate(block, compilers, numbers)


def _annotate(block: Block, compilers: Sequence[ExternalCompiler], numbers: Iterator[int]) -> None:
    """Mark the matches of a block, from its last op upwards."""
    order = {op: k for k, op in enumerate(block.ops)}
    for one in compilers:
        left: list[PatternMatch] = []
        for op in reversed(list(block.ops)):
            match = first_match(one.patterns, op, order)
            if match is None or any(OFFLOAD_COMPILER in inner.attributes for inner in match.ops):
                continue
            if not any(map(_is_symbolic, match.ops)) or (one.open_sizes and all(map(_is_ranked, match.ops))):
                _mark(match, one.name, next(numbers))
            else:
                left.append(match)
        if left:
            warn(left[-1].root, _left_text(one, left))


def _left_text(compiler: ExternalCompiler, left: Sequence[PatternMatch]) -> str:
    """What the user is told of matches that a compiler of static sizes leaves."""
    count = f"{len(left)} matches of open sizes stay" if len(left) > 1 else "a match of open sizes stays"
    remedy = "give the inputs static shapes, or register the compiler with open_sizes=True"
    return f"compiler '{compiler.name}' takes static sizes only: {count} with mlc, by {left[-1].pattern}; {remedy}"


def _is_ranked(op: Operation) -> bool:
    """Whether each value is a tensor whose sizes are known at least as expressions."""
    types = [v.type for v in (*op.operands, *op.results)]
    return all(isinstance(t, TensorType) and (t.has_static_shape() or isinstance(t.encoding, DimsAttr)) for t in types)


def _is_symbolic(op: Operation) -> bool:
    types = [v.type for v in (*op.operands, *op.results)]
    return not all(isinstance(t, TensorType) and t.has_static_shape() for t in types)


def _mark(match: PatternMatch, compiler: str, number: int) -> None:
    for op in match.ops:
        op.attributes[OFFLOAD_COMPILER] = StringAttr(compiler)
        op.attributes[OFFLOAD_PATTERN] = StringAttr(match.pattern)
        op.attributes[OFFLOAD_MATCH] = IntegerAttr(number, i64)
