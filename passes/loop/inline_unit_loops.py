"""loop-inline-unit-loops: replace a loop of one iteration by its body."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects import loop
from mlc.dialects.index import Index, IndexMapAttr, const, dim
from mlc.dialects.walk import walk
from mlc.passes.loop.index_space.domain import body_ops
from mlc.passes.loop.index_space.expressions import EXPRESSIONS


def substitute_constant(op: Operation, value: SSAValue, number: int) -> None:
    """Fold an index operand that is a known integer into the op's expressions, and drop the operand."""
    names, head = EXPRESSIONS[type(op)]
    at = next(k for k, v in enumerate(op.operands) if v is value and k >= head) - head

    def one(d: int) -> Index:
        if d < 0 or d < at:
            return dim(d)
        return const(number) if d == at else dim(d - 1)

    for name in names:
        attr = op.properties.get(name)
        if isinstance(attr, IndexMapAttr):
            op.properties[name] = IndexMapAttr(tuple(e.substitute(one) for e in attr.data))
    op.operands = [v for k, v in enumerate(op.operands) if k != at + head]


def inline_unit_loop(f: loop.ForOp) -> None:
    """Put the body of a loop that runs once in its place."""
    number = f.lower.const
    for use in list(f.iv.uses):
        op = use.operation
        if type(op) in EXPRESSIONS:
            if any(v is f.iv for v in op.operands):
                substitute_constant(op, f.iv, number)
        else:
            constant = ConstantOp(IntegerAttr(number, IndexType()))
            block = op.parent
            assert block is not None
            block.insert_op_before(constant, op)
            op.operands = [constant.result if v is f.iv else v for v in op.operands]
    parent = f.parent
    assert parent is not None
    for arg, initial in zip(f.carried, f.iter_args, strict=True):
        arg.replace_all_uses_with(initial)
    for op in body_ops(f.body.block):
        op.detach()
        parent.insert_op_before(op, f)
    for result, value in zip(f.results, f.yield_op.values, strict=True):
        result.replace_all_uses_with(value)
    f.detach()
    f.erase(safe_erase=False)


def inline_unit_loops(func: loop.FuncOp) -> None:
    """Inline every loop of one iteration, except vectorized ones."""
    for op in list(walk(func)):
        if isinstance(op, loop.ForOp) and op.extent == 1 and op.lower.is_const and op.kind.data != "vectorized":
            inline_unit_loop(op)


class InlineUnitLoopsPass(ModulePass):
    """
    A loop of one iteration becomes its body, so that equal accesses have equal index expressions.

    `loop.for %n = 0 to 1 { loop.load %x[%n, %i] }` -> `loop.load %x[0, %i]`
    """

    name = "loop-inline-unit-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.block.ops:
            if isinstance(func, loop.FuncOp):
                inline_unit_loops(func)
