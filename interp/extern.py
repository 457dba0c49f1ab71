"""The meaning of `te.extern`: its loop body, or the function that it calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlc.dialects import loop
from mlc.dialects.index import dim
from mlc.dialects.scalar import INDEX
from mlc.dialects.te_extern import ExternOp, empty_body
from mlc.interp import loop as loop_interpreter
from mlc.interp import values as V
from mlc.support.arithmetic import Arithmetic


def run_extern(op: ExternOp, inputs: Sequence[Any], symbols: Sequence[int], arithmetic: Arithmetic) -> list[Any]:
    """The results of a stage at these symbols; InterpreterError where its function cannot be called here."""
    kernel = _kernel(op)
    shapes = [[int(n.evaluate(symbols)) for n in op.shape_of(r)] for r in op.results]
    types = op.buffer_types()[len(op.inputs) :]
    outputs = [V.poisoned(n, V.dtype_for(t, arithmetic)) for n, t in zip(shapes, types, strict=True)]
    sizes = [int(n.evaluate(symbols)) for n in op.sizes]
    return loop_interpreter.run(kernel, [*inputs, *outputs, *sizes], arithmetic=arithmetic)


def _kernel(op: ExternOp) -> loop.FuncOp:
    """The stage as a kernel of its own."""
    types = [*op.buffer_types(), *[INDEX] * len(op.sizes)]
    if op.called is None:
        body = op.body.clone()
    else:
        body, block = empty_body(types)
        first, end = len(op.inputs), len(op.inputs) + len(op.results)
        numbers = [dim(k) for k in range(len(op.sizes))]
        inputs, outputs, sizes = block.args[:first], block.args[first:end], block.args[end:]
        block.add_op(loop.ExternCallOp.make(op.called, inputs, outputs, numbers, sizes))
        block.add_op(loop.YieldOp.create())
    kernel = loop.FuncOp.make("extern", types, len(op.results), body)
    kernel.location = op.location
    return kernel
