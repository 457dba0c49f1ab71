"""The meaning of `te.extern`: its loop body, or the function that it calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlc.dialects import loop
from mlc.dialects.te_extern import ExternOp, empty_body
from mlc.interp import loop as loop_interpreter
from mlc.support.arithmetic import Arithmetic


def run_extern(op: ExternOp, inputs: Sequence[Any], arithmetic: Arithmetic) -> list[Any]:
    """The results of a stage; InterpreterError where its function cannot be called here."""
    return loop_interpreter.run(_kernel(op), list(inputs), arithmetic=arithmetic)


def _kernel(op: ExternOp) -> loop.FuncOp:
    """The stage as a kernel of its own."""
    types = op.buffer_types()
    if op.called is None:
        body = op.body.clone()
    else:
        body, block = empty_body(types)
        block.add_op(loop.ExternCallOp.make(op.called, block.args[: len(op.inputs)], block.args[len(op.inputs) :]))
        block.add_op(loop.YieldOp.create())
    kernel = loop.FuncOp.make("extern", types, len(op.results), body)
    kernel.location = op.location
    return kernel
