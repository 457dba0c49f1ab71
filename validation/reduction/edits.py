"""
The edits of a reduction: each removes or simplifies one operation, argument or output of a module.

An edit names an op by its index in `module.walk()`; `edited` applies several to a copy, erases what became dead, and
verifies the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    TensorType,
    f64,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.traits import IsTerminator

from mlc.dialects import loop, te
from mlc.dialects.graph import FullOp, GraphOp, ParamOp
from mlc.dialects.graph.ops.structure import ConstantOp
from mlc.dialects.graph.types import FLOATS
from mlc.dialects.index import IndexMapAttr
from mlc.passes.loop.inline_unit_loops import inline_unit_loop
from mlc.passes.rewriting import removable
from mlc.passes.verifier import verify
from mlc.validation.reduction.subject import FUNCTIONS, Subject, name_of

Change = Callable[[Operation, Subject, Any], bool]
"""Changes an op of a copied module; the last argument is an edit's value. False: it does not apply to this op."""


@dataclass(frozen=True)
class Edit:
    """A change of the op at `index` of `module.walk()`; `value` is its argument, such as the number of an output."""

    index: int
    change: Change
    value: Any = None


def edited(subject: Subject, edits: Sequence[Edit]) -> Subject | None:
    """A copy with these edits; None if none of them applies, or the result is not valid."""
    copy = subject.copy()
    ops, changed = list(copy.module.walk()), False
    # from the back: neither the ops nor the numbers of arguments and outputs in front of an edit shift
    for edit in sorted(edits, key=lambda one: (one.index, _number(one.value)), reverse=True):
        op = ops[edit.index]
        if is_inside(op, copy.module):
            changed |= edit.change(op, copy, edit.value)
    return tidied(copy) if changed else None


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def tidied(subject: Subject) -> Subject | None:
    """The subject without dead ops; None if it is not valid."""
    try:
        erase_dead_ops(subject.module)
        _drop_unused_outputs(subject)
        verify(subject.module)
        if any(isinstance(one, te.FuncOp) and set(one.args) & set(one.return_op.values) for one in subject.module.ops):
            return None  # a kernel computes what it returns
        return subject if subject.text else None  # text that cannot be printed is of no use
    except Exception:  # whatever a verifier or a printer raises: this candidate is not one
        return None


def is_inside(op: Operation, module: ModuleOp) -> bool:
    """Whether an op still belongs to the module."""
    at: Operation | None = op
    while at is not None and at is not module:
        at = at.parent_op()
    return at is module


def erase_dead_ops(module: ModuleOp) -> None:
    """Erase the ops without effect whose results are not used, and buffers that nobody uses."""
    for op in reversed(list(module.walk())):
        if op.results and not any(result.uses for result in op.results) and _may_go(op):
            op.detach()
            op.erase()


def _drop_unused_outputs(subject: Subject) -> None:
    """Drop the outputs that no op of a kernel writes, as long as there is another."""
    for op in subject.module.ops:
        if isinstance(op, loop.FuncOp):
            for number in reversed(range(len(op.args))):
                if op.args[number] in outputs_of(op):
                    drop_argument(op, subject, number)


def _may_go(op: Operation) -> bool:
    return removable(op) or isinstance(op, loop.LoadOp | loop.AllocOp | loop.GatherOp | te.ComputeOp)


# --- operations ------------------------------------------------------------------------------------------------------


def erase(op: Operation, subject: Subject, value: object) -> bool:
    """Erase an op, and the ops that use its results."""
    users = [use.operation for result in op.results for use in result.uses]
    for user in users:
        if user.parent is not None and (user.has_trait(IsTerminator) or not erase(user, subject, value)):
            return False
    if any(result.uses for result in op.results):
        return False
    op.detach()
    op.erase()
    return True


def by_operand(op: Operation, subject: Subject, value: object) -> bool:
    """Put an operand of the same type in the place of each result."""
    return _replace(op, lambda result: next((one for one in op.operands if one.type == result.type), None))


def by_earlier(op: Operation, subject: Subject, value: object) -> bool:
    """Put the first value of the same type in the place of each result."""
    return _replace(op, lambda result: next(iter(_alike(op, result)), None))


def by_nearest(op: Operation, subject: Subject, value: object) -> bool:
    """Put the last value of the same type before the op in the place of each result."""
    return _replace(op, lambda result: next(reversed(_alike(op, result)), None))


def _alike(op: Operation, result: SSAValue) -> list[SSAValue]:
    """The values of a type that an op sees; for a buffer those that a kernel may write."""
    written = _written(op)
    known = [one for one in _before(op) if one.type == result.type]
    return [
        one
        for one in known
        if not isinstance(one.type, MemRefType) or one in written or isinstance(one.owner, loop.AllocOp)
    ]


def _written(op: Operation) -> list[SSAValue]:
    """The outputs of the loop.func around an op."""
    at = op.parent_op()
    while at is not None and not isinstance(at, loop.FuncOp):
        at = at.parent_op()
    return [] if at is None else outputs_of(at)


def outputs_of(function: loop.FuncOp) -> list[SSAValue]:
    """The buffers that a kernel writes."""
    buffers = [arg for arg in function.args if isinstance(arg.type, MemRefType)]
    return buffers[len(buffers) - function.outputs.value.data :]


def by_argument(op: Operation, subject: Subject, recorded: Any) -> bool:
    """Put an argument of the function in the place of each result."""
    return _replace(op, lambda result: _argument_like(op, result, subject, recorded))


def by_output(op: Operation, subject: Subject, value: object) -> bool:
    """Let a kernel return a buffer of its own as one output more."""
    function = op.parent_op()
    while function is not None and not isinstance(function, loop.FuncOp):
        function = function.parent_op()
    if function is None or not isinstance(op, loop.AllocOp) or is_called(function):
        return False
    block = function.body.block
    buffers = sum(isinstance(arg.type, MemRefType) for arg in block.args)
    op.results[0].replace_all_uses_with(block.insert_arg(op.results[0].type, buffers))
    function.outputs = IntegerAttr(function.outputs.value.data + 1, i64)
    update_type(function)
    return True


def by_zeros(op: Operation, subject: Subject, value: object) -> bool:
    """Put zeros in the place of each result."""
    return _replace(op, lambda result: _zeros_like(op, result))


def _replace(op: Operation, new: Callable[[SSAValue], SSAValue | None]) -> bool:
    """Replace the results that are used; False if one has no replacement."""
    done = False
    for result in op.results:
        if not result.uses:
            continue
        value = new(result)
        if value is None:
            return done
        result.replace_all_uses_with(value)
        done = True
    return done


def _before(op: Operation) -> Iterator[SSAValue]:
    """The values that an op sees, outer ones first, as far as they are in its function."""
    parent, block = op.parent_op(), op.parent
    if block is None:
        return
    if parent is not None and not isinstance(parent, FUNCTIONS):
        yield from _before(parent)
    yield from block.args
    for one in block.ops:
        if one is op:
            return
        yield from one.results


def _argument_like(op: Operation, result: SSAValue, subject: Subject, recorded: Any) -> SSAValue | None:
    """An argument with the recorded value where the inputs are given; else any of the type, or a new one."""
    function = op.parent_op()
    if not isinstance(function, FuncOp | te.FuncOp) or not isinstance(result.type, TensorType):
        return None
    block = function.body.block
    given = subject.inputs if function is subject.entry_function else None
    if given is None:
        found = next((arg for arg in block.args if arg.type == result.type), None)
        if found is not None or is_called(function):
            return found
    elif recorded is None:
        return None
    argument = block.insert_arg(result.type, len(block.args))
    argument.name_hint = result.name_hint
    if given is not None:
        given.append(recorded)
    if isinstance(function, FuncOp) and function.arg_attrs is not None:
        function.arg_attrs = None
    update_type(function)
    return argument


def _zeros_like(op: Operation, result: SSAValue) -> SSAValue | None:
    """A new op that makes zeros of the type, before the op."""
    block, t = op.parent, result.type
    assert block is not None
    try:
        if isinstance(t, TensorType):
            new: Operation = FullOp.create(properties={"value": FloatAttr(0.0, f64)}, result_types=[t])
        elif isinstance(t, FLOATS):
            new = arith.ConstantOp(FloatAttr(0.0, t))
        elif isinstance(t, IntegerType | IndexType):
            new = arith.ConstantOp(IntegerAttr(0, t))
        else:
            return None
    except Exception:  # no zeros of this type
        return None
    if isinstance(op, FullOp | ConstantOp | arith.ConstantOp):
        return None
    block.insert_op_before(new, op)
    return new.results[0]


def embed(op: Operation, subject: Subject, value: object) -> bool:
    """Make a constant in the text of a small weight."""
    if not isinstance(op, ParamOp) or subject.weights is None or op.entry not in subject.weights:
        return False
    array = np.asarray(subject.weights.array(op.entry))
    if array.size > ConstantOp.MAX_ELEMENTS:
        return False
    constant = ConstantOp.make(array, location=op.location)
    block = op.parent
    assert block is not None
    block.insert_op_before(constant, op)
    op.results[0].replace_all_uses_with(constant.results[0])
    return True


def one_iteration(op: Operation, subject: Subject, value: object) -> bool:
    """Let a loop run once."""
    if not isinstance(op, loop.ForOp) or op.extent == 1:
        return False
    op.bounds = IndexMapAttr.get([op.lower, op.lower + 1])
    return True


def inlined(op: Operation, subject: Subject, value: object) -> bool:
    """Put the first iteration of a loop in its place."""
    if not isinstance(op, loop.ForOp) or not op.lower.is_const or op.kind.data == "vectorized":
        return False
    inline_unit_loop(op)
    return True


def take_default(op: Operation, subject: Subject, name: Any) -> bool:
    """Give an attribute its default, or drop one that is not declared."""
    if name in op.attributes:
        del op.attributes[name]
        return True
    if isinstance(op, GraphOp) and name in op.declared and op.declared[name].default is not None:
        default = op.declared[name].encode(op.declared[name].default)
        if op.properties.get(name, default) != default:
            op.properties[name] = default
            return True
    return False


# --- functions -------------------------------------------------------------------------------------------------------


def is_called(function: Operation) -> bool:
    """Whether another function of the module names this one; the schedule of a kernel does not count."""
    name, module = name_of(function), function.parent_op()
    if module is None:
        return False
    for op in module.walk():
        callee = op.properties.get("callee")
        if callee is not None and str(callee) == f"@{name}":
            return True
    return False


def cut(op: Operation, subject: Subject, value: object) -> bool:
    """Let the function return the results of an op, and nothing else."""
    function, block = op.parent_op(), op.parent
    if not isinstance(function, FuncOp | te.FuncOp) or block is None or not op.results or is_called(function):
        return False
    last = block.last_op
    if last is None or list(last.operands) == list(op.results) or not all(_is_tensor(r.type) for r in op.results):
        return False
    return _return(function, block, list(op.results))


def end_behind(op: Operation, subject: Subject, value: object) -> bool:
    """Let the function end behind an op: it returns what the ops so far compute and none of them reads."""
    function, block = op.parent_op(), op.parent
    if not isinstance(function, FuncOp | te.FuncOp) or block is None or is_called(function):
        return False
    kept: list[Operation] = []
    for one in block.ops:
        kept.append(one)
        if one is op:
            break
    inside = set(kept)
    left = [r for one in kept for r in one.results if _is_tensor(r.type) and not _read_by(r, block, inside)]
    return bool(left) and _return(function, block, left)


def _read_by(value: SSAValue, block: Block, ops: set[Operation]) -> bool:
    """Whether one of some ops of a block, or an op in their regions, reads a value."""
    for use in value.uses:
        at: Operation | None = use.operation
        while at is not None and at.parent is not block:
            at = at.parent_op()
        if at in ops:
            return True
    return False


def drop_output(op: Operation, subject: Subject, number: Any) -> bool:
    """Let a function no longer return its output of this number."""
    if not isinstance(op, FuncOp | te.FuncOp) or is_called(op):
        return False
    block = op.body.block
    last = block.last_op
    if last is None or len(last.operands) < 2 or number >= len(last.operands):
        return False
    return _return(op, block, [value for k, value in enumerate(last.operands) if k != number])


def _is_tensor(t: Attribute) -> bool:
    return isinstance(t, TensorType)


def _return(function: FuncOp | te.FuncOp, block: Block, values: Sequence[SSAValue]) -> bool:
    last = block.last_op
    assert last is not None
    new = ReturnOp(*values) if isinstance(function, FuncOp) else type(last).create(operands=values)
    last.detach()
    last.erase()
    block.add_op(new)
    if isinstance(function, FuncOp):
        function.res_attrs = None
    update_type(function)
    return True


def drop_argument(op: Operation, subject: Subject, number: Any) -> bool:
    """Drop an argument that is not used."""
    if not isinstance(op, FUNCTIONS) or is_called(op):
        return False
    assert isinstance(op, FuncOp | te.FuncOp | loop.FuncOp)
    block = op.body.block
    if number >= len(block.args):
        return False
    argument = cast("BlockArgument", block.args[number])
    if argument.uses:
        return False
    if isinstance(op, loop.FuncOp) and argument in (written := outputs_of(op)):
        if len(written) < 2:
            return False
        op.outputs = IntegerAttr(len(written) - 1, i64)
    if subject.inputs is not None and op is subject.entry_function:
        del subject.inputs[number]
    block.erase_arg(argument)
    if isinstance(op, FuncOp) and op.arg_attrs is not None:
        op.arg_attrs = ArrayAttr([a for k, a in enumerate(op.arg_attrs.data) if k != number])
    update_type(op)
    return True


def update_type(function: FuncOp | te.FuncOp | loop.FuncOp) -> None:
    """Let a function's type say what its body's arguments and terminator are."""
    block = function.body.block
    last = block.last_op
    outputs = [] if last is None or isinstance(function, loop.FuncOp) else [value.type for value in last.operands]
    function.function_type = FunctionType.from_lists([arg.type for arg in block.args], outputs)
