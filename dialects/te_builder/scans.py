"""te.scan: a recurrence along the first axis of its states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects import te
from mlc.dialects.index import compact
from mlc.dialects.te_builder.indices import StageBuilder, check_name
from mlc.dialects.te_builder.kernels import dependences
from mlc.dialects.te_builder.stages import copy_of, current_kernel
from mlc.dialects.te_builder.tensors import Tensor
from mlc.dialects.te_extern import ExternOp
from mlc.dialects.value_names import value_name
from mlc.support.errors import UserError

Tensors = Tensor | Sequence[Tensor]


def scan(init: Tensors, update: Tensors, state: Tensors, inputs: Sequence[Tensor] = (), name: str = "scan") -> Any:
    """
    A recurrence: the state at all steps, which its first axis counts; of several states a tuple.

    `state` is a placeholder of the shape (steps, ...), `init` gives its first step or steps, and `update`, a stage of
    the state's shape, each further one: it reads the state at `t - 1`, or as many steps back as `init` has, or with
    te.if_then_else(j < t, ...) at any step before, and may be computed by several stages, whose first axis is the step,
    too. States may differ in the other axes. `inputs` lists what else the stages read; they need not be named.

    Raises UserError for states and updates of other shapes, for reads of steps that are not there yet, and for a
    te.scan or te.extern among the stages that depend on a state.
    """
    check_name(name)
    inits, updates, states = (_several(what, x) for what, x in (("init", init), ("update", update), ("state", state)))
    if not len(inits) == len(updates) == len(states):
        raise UserError(
            f"expected an init and an update of each state, but got {len(inits)} and {len(updates)} of {len(states)}"
        )
    for tensor in inputs:
        if not isinstance(tensor, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance] - from users
            raise UserError(f"expected inputs of te.scan to be tensors, but got {tensor!r:.80}")
    for first, next_, one in zip(inits, updates, states, strict=True):
        _check_state(first, next_, one)
    if any(s.shape[0] != states[0].shape[0] for s in states):
        raise UserError(f"expected states of one number of steps, but got {[s.shape[0] for s in states]}")
    if len({init.shape[0] for init in inits}) > 1:
        got = ", ".join(f"{init.shape[0]} of '{s.name}'" for init, s in zip(inits, states, strict=True))
        raise UserError(f"expected inits of one number of steps, but got {got}; give each as many as the longest has")
    op = _scan_op(inits, _stages_of_their_own(updates, states), states, name)
    if (kernel := current_kernel()) is not None:
        kernel.place(op)
    found = tuple(
        Tensor(r, s.shape, s.element, s.unsigned, s.name or name) for r, s in zip(op.results, states, strict=True)
    )
    return found[0] if isinstance(state, Tensor) else found


def _several(what: str, tensors: Tensors) -> list[Tensor]:
    found = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for tensor in found:
        if not isinstance(tensor, Tensor) or tensor.value is None:  # pyright: ignore[reportUnnecessaryIsInstance] - from users
            raise UserError(f"expected {what} of te.scan to be a tensor, but got {tensor!r:.80}")
    return found


def _check_state(init: Tensor, update: Tensor, state: Tensor) -> None:
    """
    UserError unless the state is a placeholder and the other two fit it.

    The update has the state's shape, the init the shape of the state's first steps, and all three have one element
    type.
    """
    label = f"state '{state.name}' of shape {_text(state.shape)}"
    if state.value is None or not isinstance(state.value.owner, Block) or not state.shape:
        raise UserError(f"expected the state of te.scan to be a placeholder with an axis of steps, but got {label}")
    if update.shape != state.shape:
        raise UserError(f"expected the update of {label} to have its shape, but got {_text(update.shape)}")
    if init.ndim != state.ndim or init.shape[1:] != state.shape[1:] or not isinstance(init.shape[0], int):
        wanted = _text(("1 or more", *state.shape[1:]))
        raise UserError(f"expected the init of {label} to have shape {wanted}, but got {_text(init.shape)}")
    for what, tensor in (("init", init), ("update", update)):
        if tensor.element != state.element or tensor.unsigned != state.unsigned:
            raise UserError(f"expected the {what} of {label} to be of {state.element}, but got {tensor.element}")


def _text(shape: Sequence[Any]) -> str:
    return "x".join(map(str, shape)) or "()"


def _stages_of_their_own(updates: Sequence[Tensor], states: Sequence[Tensor]) -> list[SSAValue]:
    """
    The updates, each the result of a stage that no other state has.

    One that reads its own state elsewhere than a number of steps back is copied: then its points do not depend on each
    other, and can be scheduled.
    """
    found: list[SSAValue] = []
    for tensor, state in zip(updates, states, strict=True):
        value = tensor.value
        alone = value is not None and isinstance(value.owner, te.ComputeOp) and value not in found
        if not alone or _reads_any_step(tensor.op, state):
            value = copy_of(tensor, "update").value
        assert value is not None
        found.append(value)
    return found


def _reads_any_step(stage: te.ComputeOp, state: Tensor) -> bool:
    """Whether a stage reads a state elsewhere than a number of steps back."""
    reads = [op for op in stage.body.block.ops if isinstance(op, te.ReadOp) and op.tensor is state.value]
    return any(te.step_back(op, stage.axes[0]) is None for op in reads)


def _scan_op(inits: Sequence[Tensor], updates: Sequence[SSAValue], states: Sequence[Tensor], name: str) -> te.ScanOp:
    values = [s.value for s in states if s.value is not None]
    block = Block(arg_types=[v.type for v in values])
    mapping: dict[SSAValue, SSAValue] = {}
    for value, arg, tensor in zip(values, block.args, states, strict=True):
        arg.name_hint = value_name(tensor.name)
        mapping[value] = arg
    for op in _in_the_loop(updates, set(values), name):
        copy = op.clone(mapping)
        block.add_op(copy)
        mapping.update(zip(op.results, copy.results, strict=True))
    block.add_op(te.YieldOp.create(operands=[mapping[u] for u in updates]))
    sizes = StageBuilder([], [], (), kernel.symbols if (kernel := current_kernel()) is not None else None)
    exprs, symbols = compact([sizes.index(states[0].shape[0])], sizes.values)
    op = te.ScanOp.make(name, [i.value for i in inits if i.value is not None], exprs[0], symbols, Region(block))
    for result, tensor in zip(op.results, states, strict=True):
        result.name_hint = value_name(tensor.name)
    try:
        op.verify(verify_nested_ops=False)
    except VerifyException as error:
        raise UserError(f"te.scan '{name}': {str(error).rpartition(chr(10))[2]}") from error
    return op


def _in_the_loop(updates: Sequence[SSAValue], states: set[SSAValue], name: str) -> list[Operation]:
    """The stages that the updates need and that depend on a state, in order, and the updates themselves."""
    order: dict[Operation, bool] = {}

    def visit(value: SSAValue) -> bool:
        op = value.owner
        if isinstance(op, te.ScanOp | ExternOp) and any([visit(v) for v in dependences(op)]):
            kind = "te.scan" if isinstance(op, te.ScanOp) else "te.extern"
            raise UserError(
                f"expected the stages of te.scan '{name}' that depend on a state to be te.compute, but "
                f"'{op.stage_name}' is a {kind}; a recurrence inside of a step, or a call, is a te.extern with a loop "
                "body for all steps"
            )
        if not isinstance(op, te.ComputeOp):
            return value in states
        if op not in order:
            reads = [visit(v) for v in dependences(op)]
            order[op] = any(reads)
        return order[op]

    for update in updates:
        visit(update)
    last = {update.owner for update in updates}
    return [op for op, depends in order.items() if depends or op in last]
