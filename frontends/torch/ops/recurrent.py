"""ATen's recurrent layers: one layer with its directions after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlc.frontends.common.movement import concat, reshape, slice_axis, stack, transpose
from mlc.frontends.common.ops.recurrent import (
    ACTIVATIONS,
    RECURRENT_KINDS,
    RecurrentKind,
    RecurrentLayer,
    activation,
    float_products,
    recurrent,
)
from mlc.frontends.common.values import Value
from mlc.frontends.torch.call import AtenCall, Convert


@dataclass(frozen=True)
class AtenRecurrentKind:
    """A recurrent layer of ATen in terms of ONNX's."""

    kind: RecurrentKind
    gates: tuple[int, ...]
    """Of each of ONNX's gates, its place in torch's order."""
    activations: tuple[str, ...]


KINDS = {
    "lstm": AtenRecurrentKind(RECURRENT_KINDS["LSTM"], (0, 3, 1, 2), ("Sigmoid", "Tanh", "Tanh")),
    "gru": AtenRecurrentKind(RECURRENT_KINDS["GRU"], (1, 0, 2), ("Sigmoid", "Tanh")),
    "rnn_tanh": AtenRecurrentKind(RECURRENT_KINDS["RNN"], (0,), ("Tanh",)),
    "rnn_relu": AtenRecurrentKind(RECURRENT_KINDS["RNN"], (0,), ("Relu",)),
}
"""The recurrent layers by their ATen ops."""


def _recurrent(call: AtenCall) -> list[Value]:
    """(the outputs of all steps, the last state of each layer and direction, for each state)."""
    own = KINDS[call.kind.removeprefix("mlc::")]
    count = own.kind.states
    if call["train"] and call["dropout"]:
        raise call.fail("expected a module that is not in training, but its dropout is on; call eval() before")
    if "batch_sizes" in call:
        raise call.fail("expected a tensor of sequences of one length, but got a packed sequence")
    states = call["hx"] if isinstance(call["hx"], list) else [call["hx"]]
    directions = 2 if call["bidirectional"] else 1
    x = call["input"]
    if batched := len(x.shape) == 3:
        x = transpose(call, x, (1, 0, 2)) if call["batch_first"] else x
    weights = _weights(call, states[0].shape[0] // directions, directions)
    last: list[list[Value]] = [[] for _ in range(count)]
    for number, parameters in enumerate(weights):
        at = number * directions
        first = [slice_axis(call, state, 0, at, at + directions) for state in states[:count]]
        y, *ends = recurrent(call, x, _layer(call, own, parameters, first))
        length, _, batch, hidden = y.shape
        x = reshape(call, transpose(call, y, (0, 2, 1, 3)), (length, batch, directions * hidden))
        for into, end in zip(last, ends, strict=True):
            into.append(end)
    x = transpose(call, x, (1, 0, 2)) if batched and call["batch_first"] else x
    return [x, *(concat(call, ends, 0) for ends in last)]


def _layer(
    call: AtenCall, own: AtenRecurrentKind, parameters: Sequence[Sequence[Value]], states: Sequence[Value]
) -> RecurrentLayer:
    """One layer; `parameters` has the weights and biases of each direction."""
    w, r, bias = _packed(call, parameters, own.gates)
    activations = [activation(call, ACTIVATIONS[name], ACTIVATIONS[name][1]) for name in own.activations]
    return RecurrentLayer(
        own.kind,
        r.shape[2],
        float_products(call, w),
        float_products(call, r),
        bias,
        None,
        states,
        None,
        [False, True][: len(parameters)],
        [activations] * len(parameters),
        linear_before_reset=True,
    )


def _weights(call: AtenCall, layers: int, directions: int) -> list[list[list[Value]]]:
    """By layer and direction: the weights of input and state, and their biases."""
    flat = call["params"]
    each = 4 if call["has_biases"] else 2
    if len(flat) != layers * directions * each:
        raise call.fail("expected an LSTM without projections, but got proj_size")
    groups = [flat[i : i + each] for i in range(0, len(flat), each)]
    return [groups[i : i + directions] for i in range(0, len(groups), directions)]


def _packed(call: AtenCall, own: Sequence[Sequence[Value]], order: Sequence[int]) -> tuple[Value, Value, Value | None]:
    """W, R and B of all directions, their gates in ONNX's order."""
    w, r = (stack(call, [_reordered(call, one[i], order) for one in own], 0) for i in (0, 1))
    if len(own[0]) == 2:
        return w, r, None
    biases = [concat(call, [_reordered(call, b, order) for b in one[2:]], 0) for one in own]
    return w, r, stack(call, biases, 0)


def _reordered(call: AtenCall, weight: Value, order: Sequence[int]) -> Value:
    size = weight.shape[0] // len(order)
    if list(order) == sorted(order):
        return weight
    return concat(call, [slice_axis(call, weight, 0, gate * size, (gate + 1) * size) for gate in order], 0)


CONVERTERS: dict[str, Convert] = dict.fromkeys((*KINDS, *(f"mlc::{kind}" for kind in KINDS)), _recurrent)
