"""
Recurrent layers: a graph.scan over the steps, or a few steps unrolled.

The products with the inputs of all steps are one product; each step adds the product with its state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph import GraphOp
from mlc.dialects.graph.dims import Dim
from mlc.frontends.common.elementwise import add, binary, cast, divide, full, iota, multiply, select, subtract
from mlc.frontends.common.movement import index_axis, reshape, slice_axis, stack, transpose
from mlc.frontends.common.regions import scan
from mlc.frontends.common.source_node import SourceNode
from mlc.frontends.common.values import Value, dtype_like

Activation: TypeAlias = "Callable[[Value], Value]"
CellStep: TypeAlias = "Callable[[RecurrentCell, Value, list[Value]], list[Value]]"
"""(the cell, the input's share of the gates, the states) -> the new states, the first of which is the output."""
RowProduct: TypeAlias = "Callable[[Value, int, int], Value]"
"""(rows of inputs, first, last) -> their products with the weights' rows first..last."""
ActivationFunction: TypeAlias = "Callable[[SourceNode, Value, Mapping[str, float]], Value]"
ActivationKind: TypeAlias = "tuple[type[GraphOp] | ActivationFunction, dict[str, float]]"
"""An op, or a function of (node, value, attributes), and its attributes with their defaults."""


def _softsign(node: SourceNode, x: Value, attrs: Mapping[str, float]) -> Value:
    return divide(node, x, add(node, node.emit(g.AbsOp, x), 1.0))


def _affine(node: SourceNode, x: Value, attrs: Mapping[str, float]) -> Value:
    return add(node, multiply(node, x, attrs["alpha"]), attrs["beta"])


def _scaled_tanh(node: SourceNode, x: Value, attrs: Mapping[str, float]) -> Value:
    return multiply(node, node.emit(g.TanhOp, multiply(node, x, attrs["beta"])), attrs["alpha"])


def _thresholded_relu(node: SourceNode, x: Value, attrs: Mapping[str, float]) -> Value:
    return select(node, binary(node, g.GreaterOp, x, attrs["alpha"]), x, 0.0)


ACTIVATIONS: dict[str, ActivationKind] = {
    "Relu": (g.ReluOp, {}),
    "Tanh": (g.TanhOp, {}),
    "Sigmoid": (g.SigmoidOp, {}),
    "Softplus": (g.SoftplusOp, {}),
    "LeakyRelu": (g.LeakyReluOp, {"alpha": 0.01}),
    "Elu": (g.EluOp, {"alpha": 1.0}),
    "HardSigmoid": (g.HardSigmoidOp, {"alpha": 0.2, "beta": 0.5}),
    "Softsign": (_softsign, {}),
    "Affine": (_affine, {"alpha": 1.0, "beta": 0.0}),
    "ScaledTanh": (_scaled_tanh, {"alpha": 1.0, "beta": 1.0}),
    "ThresholdedRelu": (_thresholded_relu, {"alpha": 1.0}),
}
"""Activations by ONNX's names."""
MAX_UNROLLED_STEPS = 4
"""Steps of the longest sequence whose steps are unrolled rather than scanned."""


def activate(node: SourceNode, kind: ActivationKind, x: Value, attrs: Mapping[str, float]) -> Value:
    """An activation of a value; `attrs` has a value for each of its attributes."""
    op = kind[0]
    return node.emit(op, x, **attrs) if isinstance(op, type) else op(node, x, attrs)


def activation(node: SourceNode, kind: ActivationKind, attrs: Mapping[str, float], clip: float = 0.0) -> Activation:
    """An activation as a function of its operand, which is clipped to +-clip if that is not 0."""

    def apply(x: Value) -> Value:
        x = node.emit(g.ClipOp, x, min=-clip, max=clip) if clip else x
        return activate(node, kind, x, attrs)

    return apply


@dataclass(frozen=True)
class RecurrentKind:
    """A kind of recurrent layer: the numbers of its gates and states, its default activations, one step."""

    gates: int
    states: int
    activations: tuple[str, ...]
    step: CellStep


@dataclass(frozen=True)
class RecurrentLayer:
    """A layer in all its directions; the rows of weights and biases are laid out as ONNX has them."""

    kind: RecurrentKind
    hidden: int
    """The size of a state."""
    weights: Callable[[int], RowProduct]
    """Of a direction, products of inputs; the weights have gates * hidden rows."""
    recurrent: Callable[[int], RowProduct]
    """Of a direction, products of states; the weights have gates * hidden rows."""
    bias: Value | None
    """directions x (2 * gates * hidden): of the input's share, then of the state's."""
    lengths: Value | None
    """The length of each sequence of the batch; None if all are as long as the input."""
    states: Sequence[Value | None]
    """The initial states, directions x batch x hidden each (with `batch_first`, batch x directions x hidden)."""
    peepholes: Value | None
    backward: Sequence[bool]
    """Of each direction, whether it runs from the last step to the first."""
    activations: Sequence[Sequence[Activation]]
    """Of each direction, those of the kind."""
    linear_before_reset: bool = False
    """Of a GRU: the reset gate scales the state's product, not the state."""
    input_forget: bool = False
    """Of an LSTM: the forget gate is 1 - the input gate."""
    batch_first: bool = False


@dataclass
class RecurrentCell:
    """One direction of a layer."""

    node: SourceNode
    layer: RecurrentLayer
    recurrent: RowProduct
    """Products of states with the recurrent weights, gates * hidden rows."""
    bias: Value | None
    """The bias of the state's product."""
    peephole: Value | None
    activations: Sequence[Activation]

    @property
    def hidden(self) -> int:
        """The size of a state."""
        return self.layer.hidden

    def product(self, state: Value, first: int, last: int) -> Value:
        """The state times the recurrent weights of gates first..last, with their bias."""
        rows = first * self.hidden, last * self.hidden
        y = self.recurrent(state, *rows)
        return y if self.bias is None else add(self.node, y, slice_axis(self.node, self.bias, 0, *rows))

    def gate(self, gates: Value, index: int) -> Value:
        """One gate of several."""
        return slice_axis(self.node, gates, 1, index * self.hidden, (index + 1) * self.hidden)

    def peek(self, gate: Value, state: Value, index: int) -> Value:
        """A gate plus its peephole connection to the cell state."""
        if self.peephole is None:
            return gate
        weights = slice_axis(self.node, self.peephole, 0, index * self.hidden, (index + 1) * self.hidden)
        return add(self.node, gate, multiply(self.node, weights, state))


def _rnn_step(cell: RecurrentCell, x: Value, states: list[Value]) -> list[Value]:
    return [cell.activations[0](add(cell.node, x, cell.product(states[0], 0, 1)))]


def _gru_step(cell: RecurrentCell, x: Value, states: list[Value]) -> list[Value]:
    """Gates z, r, h: `h = g(Wx + Rb + R (r * s))`, or `r * (R s + Rb)`; `s = (1 - z) * h + z * s`."""
    node, state = cell.node, states[0]
    f, activate_ = cell.activations[:2]
    gates = f(add(node, slice_axis(node, x, 1, 0, 2 * cell.hidden), cell.product(state, 0, 2)))
    z, r = cell.gate(gates, 0), cell.gate(gates, 1)
    if cell.layer.linear_before_reset:
        inner = multiply(node, r, cell.product(state, 2, 3))
    else:
        inner = cell.product(multiply(node, r, state), 2, 3)
    h = activate_(add(node, cell.gate(x, 2), inner))
    return [add(node, multiply(node, subtract(node, 1, z), h), multiply(node, z, state))]


def _lstm_step(cell: RecurrentCell, x: Value, states: list[Value]) -> list[Value]:
    """Gates i, o, f, c: `c = f * c + i * g(c')`, `h = o * h(c)`."""
    node = cell.node
    f, g_, h_ = cell.activations[:3]
    gates = add(node, x, cell.product(states[0], 0, 4))
    i = f(cell.peek(cell.gate(gates, 0), states[1], 0))
    if cell.layer.input_forget:
        forget = subtract(node, 1, i)
    else:
        forget = f(cell.peek(cell.gate(gates, 2), states[1], 2))
    c = add(node, multiply(node, forget, states[1]), multiply(node, i, g_(cell.gate(gates, 3))))
    o = f(cell.peek(cell.gate(gates, 1), c, 1))
    return [multiply(node, o, h_(c)), c]


RECURRENT_KINDS = {
    "RNN": RecurrentKind(1, 1, ("Tanh",), _rnn_step),
    "GRU": RecurrentKind(3, 1, ("Sigmoid", "Tanh"), _gru_step),
    "LSTM": RecurrentKind(4, 2, ("Sigmoid", "Tanh", "Tanh"), _lstm_step),
}
"""The layers by ONNX's names."""


def float_products(node: SourceNode, weights: Value) -> Callable[[int], RowProduct]:
    """Of each direction, products with weights of directions x rows x columns."""

    def of_direction(direction: int) -> RowProduct:
        rows = index_axis(node, weights, 0, direction)
        return lambda x, first, last: node.emit(g.DenseOp, x, slice_axis(node, rows, 0, first, last))

    return of_direction


def recurrent(node: SourceNode, x: Value, layer: RecurrentLayer) -> list[Value]:
    """
    The outputs of all steps, then the last of each state.

    `x` is steps x batch x inputs, the outputs steps x directions x batch x hidden, a state directions x batch x hidden;
    with `batch_first` the batch is the first axis of each, the steps the second of the outputs.
    """
    x = transpose(node, x, (1, 0, 2)) if layer.batch_first else x
    runs = [_direction(node, layer, x, d) for d in range(len(layer.backward))]
    y = stack(node, [outputs for outputs, _ in runs], 1)
    results = [transpose(node, y, (2, 0, 1, 3)) if layer.batch_first else y]
    for s in range(layer.kind.states):
        results.append(stack(node, [states[s] for _, states in runs], 1 if layer.batch_first else 0))
    return results


def _direction(node: SourceNode, layer: RecurrentLayer, x: Value, direction: int) -> tuple[Value, list[Value]]:
    """One direction: (the outputs of all steps, the last states)."""
    length, batch, size = x.shape
    cell, bias = _cell(node, layer, direction)
    rows = reshape(node, x, (length * batch, size))
    flat = layer.weights(direction)(rows, 0, layer.kind.gates * layer.hidden)
    shares = flat if bias is None else add(node, flat, bias)
    shares = reshape(node, shares, (length, batch, layer.kind.gates * cell.hidden))
    states = [_initial(node, layer, s, direction, (batch, cell.hidden), x) for s in range(layer.kind.states)]
    lengths = layer.lengths
    lengths = None if lengths is None else reshape(node, cast(node, lengths, np.int64), (batch, 1))

    def step(share: Value, at: Value | int, old: list[Value]) -> tuple[Value, list[Value]]:
        """The output of one step, and the new states."""
        new = layer.kind.step(cell, share, old)
        if lengths is None:
            return new[0], new
        # Beyond its length a sequence keeps its state, and its output is 0.
        inside = binary(node, g.GreaterOp, lengths, at)
        kept = [select(node, inside, a, b) for a, b in zip(new, old, strict=True)]
        return select(node, inside, new[0], full(node, new[0].shape, 0, dtype_like(x))), kept

    backward = layer.backward[direction]
    if not isinstance(length, int) or length > MAX_UNROLLED_STEPS:
        return _scanned(node, step, shares, states, backward, lengths is not None)
    outputs: dict[int, Value] = {}
    for count in range(length):
        at = length - 1 - count if backward else count
        outputs[at], states = step(index_axis(node, shares, 0, at), at, states)
    return stack(node, [outputs[at] for at in range(length)], 0), states


_Step: TypeAlias = "Callable[[Value, Value | int, list[Value]], tuple[Value, list[Value]]]"
"""(the input's share, the number of the step, the states) -> (the output, the new states)."""


def _scanned(
    node: SourceNode, step: _Step, shares: Value, states: list[Value], backward: bool, numbered: bool
) -> tuple[Value, list[Value]]:
    """All steps as one graph.scan over the input's shares and, if the steps need it, their numbers."""
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


def _cell(node: SourceNode, layer: RecurrentLayer, direction: int) -> tuple[RecurrentCell, Value | None]:
    """The cell of a direction, and the bias that is added to the input's share."""
    hidden, gates = layer.hidden, layer.kind.gates
    own = inner = None
    if layer.bias is not None:
        bias = index_axis(node, layer.bias, 0, direction)
        own, inner = (slice_axis(node, bias, 0, k * gates * hidden, (k + 1) * gates * hidden) for k in (0, 1))
    peephole = None if layer.peepholes is None else index_axis(node, layer.peepholes, 0, direction)
    products = layer.recurrent(direction)
    return RecurrentCell(node, layer, products, inner, peephole, layer.activations[direction]), own


def _initial(
    node: SourceNode, layer: RecurrentLayer, state: int, direction: int, shape: Sequence[Dim], x: Value
) -> Value:
    """A state before the first step; zeros if it is not given."""
    given = layer.states[state]
    if given is None:
        return full(node, shape, 0, dtype_like(x))
    return index_axis(node, given, 1 if layer.batch_first else 0, direction)
