"""Interprets the control flow of the graph level: `graph.if`, `graph.loop`, `graph.scan` on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Block

from mlc.dialects.graph import ControlOp, IfOp, LoopOp, ScanOp, static_shape
from mlc.dialects.graph.graph_numpy import result_dtype
from mlc.support.arithmetic import OWN, Arithmetic

Run = Callable[[Block, Sequence[Any]], list[Any]]
"""Runs a block on arrays, and returns what it yields."""
INTERPRETED_ITERATIONS = 1_000_000
"""Iterations after which a loop without a bound is reported as endless."""


def run_control(op: ControlOp, operands: Sequence[Any], run: Run, arithmetic: Arithmetic = OWN) -> list[Any]:
    """The results of a control op; computed in an arithmetic."""
    if isinstance(op, IfOp):
        return run((op.then if bool(operands[0]) else op.other).block, operands[1:])
    if isinstance(op, LoopOp):
        return _loop(op, list(operands), run, arithmetic)
    assert isinstance(op, ScanOp)
    return _scan(op, operands, run, arithmetic)


def _loop(op: LoopOp, operands: list[Any], run: Run, arithmetic: Arithmetic) -> list[Any]:
    limit = int(operands.pop(0)) if op.limit is not None else INTERPRETED_ITERATIONS
    more = bool(operands.pop(0)) if op.condition is not None else True
    bound = op.at_most.value.data
    count, limit = 0, limit if bound < 0 else min(limit, bound)
    carried, reads = operands[: len(op.carried)], operands[len(op.carried) :]
    stacks = _stacks(op, len(carried), -1, arithmetic)
    while more and count < limit:
        if count == INTERPRETED_ITERATIONS:
            raise ValueError(f"expected a loop of at most {INTERPRETED_ITERATIONS} iterations, but got more")
        results = run(op.body.block, [np.array(count, np.int64), *carried, *reads])
        more = bool(results.pop(0)) if op.condition is not None else True
        carried = results[: len(carried)]
        for stack, row in zip(stacks, results[len(carried) :], strict=True):
            stack[count] = row
        count += 1
    return [*carried, *stacks, np.array(count, np.int64)]


def _scan(op: ScanOp, operands: Sequence[Any], run: Run, arithmetic: Arithmetic) -> list[Any]:
    first, last = len(op.carried), len(op.carried) + len(op.rows)
    carried, rows, reads = operands[:first], operands[first:last], operands[last:]
    stacks = _stacks(op, first, len(op.results), arithmetic)
    for step in range(op.length):
        at = [op.length - 1 - step if op.is_backward(k) else step for k in range(len(rows) + len(stacks))]
        results = run(op.body.block, [*carried, *(r[at[k]] for k, r in enumerate(rows)), *reads])
        carried = results[:first]
        for k, row in enumerate(results[first:]):
            stacks[k][at[len(rows) + k]] = row
    return [*carried, *stacks]


def _stacks(op: ControlOp, first: int, last: int, arithmetic: Arithmetic) -> list[Any]:
    types = [result.type for result in op.results[first:last]]
    return [np.zeros(static_shape(t), result_dtype(t, arithmetic)) for t in types]
