"""
Recurrent layers: a graph.scan over the steps, or a few of them written out.

The products with the inputs of all steps are one product; each step adds the product with its state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.frontends.onnx.node import Converter, Node, Value, dtype_like
from mlc.frontends.onnx.regions import scan
from mlc.frontends.onnx.tools import (
    add,
    binary,
    cast,
    divide,
    element,
    full,
    iota,
    multiply,
    part,
    reshape,
    select,
    stack,
    subtract,
    transpose,
)

Step = Callable[["Cell", Value, list[Value]], list[Value]]
"""(the cell, the input's share of the gates, the states) -> the new states, the first of which is the output."""

# name -> (the op, or what makes it of a value and numbers; ONNX's names of its attributes and their defaults)
ACTIVATIONS: dict[str, tuple[Any, dict[str, float]]] = {
    "Relu": (g.ReluOp, {}),
    "Tanh": (g.TanhOp, {}),
    "Sigmoid": (g.SigmoidOp, {}),
    "Softplus": (g.SoftplusOp, {}),
    "LeakyRelu": (g.LeakyReluOp, {"alpha": 0.01}),
    "Elu": (g.EluOp, {"alpha": 1.0}),
    "HardSigmoid": (g.HardSigmoidOp, {"alpha": 0.2, "beta": 0.5}),
    "Softsign": (lambda node, x: divide(node, x, add(node, node.emit(g.AbsOp, x), 1.0)), {}),
    "Affine": (lambda node, x, alpha, beta: add(node, multiply(node, x, alpha), beta), {"alpha": 1.0, "beta": 0.0}),
    "ScaledTanh": (
        lambda node, x, alpha, beta: multiply(node, node.emit(g.TanhOp, multiply(node, x, beta)), alpha),
        {"alpha": 1.0, "beta": 1.0},
    ),
    "ThresholdedRelu": (
        lambda node, x, alpha: select(node, binary(node, g.GreaterOp, x, alpha), x, 0.0),
        {"alpha": 1.0},
    ),
}


@dataclass
class Cell:
    """The weights of one direction, and its activations."""

    node: Node
    hidden: int
    recurrent: Value
    """R of each gate, `gates * hidden` rows."""
    bias: Value | None
    """The recurrence's bias."""
    peephole: Value | None
    activations: list[Callable[[Value], Value]]

    def product(self, state: Value, first: int, last: int) -> Value:
        """The state times the recurrent weights of gates first..last, with their bias."""
        rows = first * self.hidden, last * self.hidden
        y = self.node.emit(g.DenseOp, state, part(self.node, self.recurrent, 0, *rows))
        return y if self.bias is None else add(self.node, y, part(self.node, self.bias, 0, *rows))

    def gate(self, gates: Value, index: int) -> Value:
        """One gate of several."""
        return part(self.node, gates, 1, index * self.hidden, (index + 1) * self.hidden)

    def peek(self, gate: Value, state: Value, index: int) -> Value:
        """A gate that also looks at the cell."""
        if self.peephole is None:
            return gate
        weights = part(self.node, self.peephole, 0, index * self.hidden, (index + 1) * self.hidden)
        return add(self.node, gate, multiply(self.node, weights, state))


def _rnn_step(cell: Cell, x: Value, states: list[Value]) -> list[Value]:
    return [cell.activations[0](add(cell.node, x, cell.product(states[0], 0, 1)))]


def _gru_step(cell: Cell, x: Value, states: list[Value]) -> list[Value]:
    """Gates z, r, h: `h = g(Wx + Rb + R (r * s))`, or `r * (R s + Rb)`; `s = (1 - z) * h + z * s`."""
    node, state = cell.node, states[0]
    f, activate = cell.activations[:2]
    gates = f(add(node, part(node, x, 1, 0, 2 * cell.hidden), cell.product(state, 0, 2)))
    z, r = cell.gate(gates, 0), cell.gate(gates, 1)
    if node.attr("linear_before_reset", 0):
        inner = multiply(node, r, cell.product(state, 2, 3))
    else:
        inner = cell.product(multiply(node, r, state), 2, 3)
    h = activate(add(node, cell.gate(x, 2), inner))
    return [add(node, multiply(node, subtract(node, 1, z), h), multiply(node, z, state))]


def _lstm_step(cell: Cell, x: Value, states: list[Value]) -> list[Value]:
    """Gates i, o, f, c: `c = f * c + i * g(c')`, `h = o * h(c)`."""
    node = cell.node
    f, g_, h_ = cell.activations[:3]
    gates = add(node, x, cell.product(states[0], 0, 4))
    i = f(cell.peek(cell.gate(gates, 0), states[1], 0))
    if node.attr("input_forget", 0):
        forget = subtract(node, 1, i)
    else:
        forget = f(cell.peek(cell.gate(gates, 2), states[1], 2))
    c = add(node, multiply(node, forget, states[1]), multiply(node, i, g_(cell.gate(gates, 3))))
    o = f(cell.peek(cell.gate(gates, 1), c, 1))
    return [multiply(node, o, h_(c)), c]


@dataclass(frozen=True)
class Kind:
    """A recurrent layer: gates, states, what its activations are by default, one step."""

    gates: int
    states: int
    activations: tuple[str, ...]
    step: Step


FEW_STEPS = 4
"""So many steps are written out."""
KINDS = {
    "RNN": Kind(1, 1, ("Tanh",), _rnn_step),
    "GRU": Kind(3, 1, ("Sigmoid", "Tanh"), _gru_step),
    "LSTM": Kind(4, 2, ("Sigmoid", "Tanh", "Tanh"), _lstm_step),
}
# The inputs of the initial states: RNN and GRU have one, LSTM two, then its peepholes.
FIRST_STATE, PEEPHOLES = 5, 7


def _recurrent(node: Node) -> list[Value]:
    """All directions of a layer: every output, then the last states."""
    kind = KINDS[node.proto.op_type]
    x = node.input(0)
    x = transpose(node, x, (1, 0, 2)) if node.attr("layout", 0) else x
    directions = node.input(1).shape[0]
    backward = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    which = backward.get(node.attr("direction", "forward"), [])
    if len(which) != directions:
        raise node.fail(f"expected weights for the direction {node.attr('direction', 'forward')}, but got {directions}")
    runs = [_run(node, kind, x, d, back) for d, back in enumerate(which)]
    layout = node.attr("layout", 0)
    y = stack(node, [outputs for outputs, _ in runs], 1)
    results = [transpose(node, y, (2, 0, 1, 3)) if layout else y]
    for s in range(kind.states):
        results.append(stack(node, [states[s] for _, states in runs], 1 if layout else 0))
    return results


def _run(node: Node, kind: Kind, x: Value, direction: int, backward: bool) -> tuple[Value, list[Value]]:
    """One direction: (the outputs of all steps, the last states)."""
    length, batch, size = x.shape
    cell, bias = _cell(node, kind, direction)
    flat = node.emit(g.DenseOp, reshape(node, x, (length * batch, size)), element(node, node.input(1), 0, direction))
    shares = flat if bias is None else add(node, flat, bias)
    shares = reshape(node, shares, (length, batch, kind.gates * cell.hidden))
    states = [_initial(node, FIRST_STATE + s, direction, (batch, cell.hidden), x) for s in range(kind.states)]
    lengths = reshape(node, cast(node, node.input(4), np.int64), (batch, 1)) if node.has(4) else None

    def step(share: Value, at: Value | int, old: list[Value]) -> tuple[Value, list[Value]]:
        """The output of one step, and the new states."""
        new = kind.step(cell, share, old)
        if lengths is None:
            return new[0], new
        # Beyond its length a sequence keeps its state, and its output is 0.
        inside = binary(node, g.GreaterOp, lengths, at)
        kept = [select(node, inside, a, b) for a, b in zip(new, old, strict=True)]
        return select(node, inside, new[0], full(node, new[0].shape, 0, dtype_like(x))), kept

    if not isinstance(length, int) or length > FEW_STEPS:
        return _scanned(node, step, shares, states, backward, lengths is not None)
    outputs: list[Any] = [None] * length
    for count in range(length):
        at = length - 1 - count if backward else count
        outputs[at], states = step(element(node, shares, 0, at), at, states)
    return stack(node, outputs, 0), states


def _scanned(
    node: Node, step: Any, shares: Value, states: list[Value], backward: bool, numbered: bool
) -> tuple[Value, list[Value]]:
    """All steps as one graph.scan, of which each row is the input's share of a step; its number, if that is asked."""
    (length,) = shares.shape[:1]
    rows = [shares]
    if numbered and isinstance(length, int):
        rows.append(node.array(np.arange(length, dtype=np.int64)))
    elif numbered:
        rows.append(iota(node, (length,), 0))

    def body(args: list[Value]) -> list[Value]:
        old, (share, *at) = args[: len(states)], args[len(states) :]
        output, new = step(share, at[0] if at else 0, old)
        return [*new, output]

    *last, outputs = scan(node, states, rows, body, [backward] * (len(rows) + 1))
    return outputs, last


def _cell(node: Node, kind: Kind, direction: int) -> tuple[Cell, Value | None]:
    """The cell of a direction, and the bias that is added to the input's share."""
    recurrent = element(node, node.input(2), 0, direction)
    hidden = recurrent.shape[1]
    own = inner = None
    if node.has(3):
        bias = element(node, node.input(3), 0, direction)
        own, inner = (part(node, bias, 0, k * kind.gates * hidden, (k + 1) * kind.gates * hidden) for k in (0, 1))
    peephole = None
    if kind.states == 2 and node.has(PEEPHOLES):
        peephole = element(node, node.input(PEEPHOLES), 0, direction)
    return Cell(node, hidden, recurrent, inner, peephole, _activations(node, kind, direction)), own


def _initial(node: Node, index: int, direction: int, shape: Sequence[Any], x: Value) -> Value:
    if not node.has(index):
        return full(node, shape, 0, dtype_like(x))
    return element(node, node.input(index), 1 if node.attr("layout", 0) else 0, direction)


def _activations(node: Node, kind: Kind, direction: int) -> list[Callable[[Value], Value]]:
    """The activations of a direction; what goes into them is clipped, save what an LSTM's output sees of its cell."""
    count = len(kind.activations)
    names = node.attr("activations", list(kind.activations) * 2)
    names = [n if isinstance(n, str) else n.decode() for n in names]
    given = {a: iter(node.attr(f"activation_{a}", [])) for a in ("alpha", "beta")}
    known = {name.lower(): facts for name, facts in ACTIVATIONS.items()}
    clip = node.attr("clip", 0.0)
    result: list[Callable[[Value], Value]] = []
    for place, name in enumerate(names):
        if name.lower() not in known:
            raise node.fail(f"expected activations of {', '.join(ACTIVATIONS)}, but got {name}")
        op, attrs = known[name.lower()]
        values = {a: next(given[a], default) for a, default in attrs.items()}
        result.append(_activation(node, op, values, 0.0 if place % count == 2 else clip))
    return result[direction * count : (direction + 1) * count]


def _activation(node: Node, op: Any, attrs: dict[str, float], clip: float) -> Callable[[Value], Value]:
    def apply(x: Value) -> Value:
        x = node.emit(g.ClipOp, x, min=-clip, max=clip) if clip else x
        return node.emit(op, x, **attrs) if isinstance(op, type) else op(node, x, **attrs)

    return apply


CONVERTERS: dict[str, Converter] = dict.fromkeys(KINDS, _recurrent)
