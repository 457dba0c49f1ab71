"""ATen's recurrent layers, one layer and both its directions after the other, by the converters of ONNX's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlc.frontends.onnx.node import Value
from mlc.frontends.onnx.tools import concat, part, reshape, stack, transpose
from mlc.frontends.torch.step import Convert, Step

# ATen op -> (ONNX's op, where in torch's order of gates each of ONNX's is, attributes, how many states)
KINDS: dict[str, tuple[str, tuple[int, ...], dict[str, Any], int]] = {
    "lstm": ("LSTM", (0, 3, 1, 2), {}, 2),
    "gru": ("GRU", (1, 0, 2), {"linear_before_reset": 1}, 1),
    "rnn_tanh": ("RNN", (0,), {}, 1),
    "rnn_relu": ("RNN", (0,), {"activations": ["Relu"]}, 1),
}


def _recurrent(step: Step) -> list[Value]:
    """(the outputs of all steps, the last state of each layer and direction, for each state)."""
    op, order, attrs, count = KINDS[step.kind.removeprefix("mlc::")]
    if step["train"] and step["dropout"]:
        raise step.fail("expected a module that is not in training, but its dropout is on; call eval() before")
    if "batch_sizes" in step:
        raise step.fail("expected a tensor of sequences of one length, but got a packed sequence")
    states = step["hx"] if isinstance(step["hx"], list) else [step["hx"]]
    directions = 2 if step["bidirectional"] else 1
    x = step["input"]
    if batched := len(x.shape) == 3:
        x = transpose(step, x, (1, 0, 2)) if step["batch_first"] else x
    weights = _weights(step, states[0].shape[0] // directions, directions)
    last: list[list[Value]] = [[] for _ in range(count)]
    for layer, own in enumerate(weights):
        at = layer * directions
        first = [part(step, state, 0, at, at + directions) for state in states[:count]]
        y, *ends = step.onnx(
            op,
            [x, *_packed(step, own, order), None, *first],
            1 + count,
            hidden_size=own[0][1].shape[-1],
            direction="bidirectional" if directions == 2 else "forward",
            **{name: value * directions for name, value in attrs.items() if isinstance(value, list)},
            **{name: value for name, value in attrs.items() if not isinstance(value, list)},
        )
        length, _, batch, hidden = y.shape
        x = reshape(step, transpose(step, y, (0, 2, 1, 3)), (length, batch, directions * hidden))
        for into, end in zip(last, ends, strict=True):
            into.append(end)
    x = transpose(step, x, (1, 0, 2)) if batched and step["batch_first"] else x
    return [x, *(concat(step, ends, 0) for ends in last)]


def _weights(step: Step, layers: int, directions: int) -> list[list[list[Value]]]:
    """By layer and direction: the weights of input and state, and their biases."""
    flat = step["params"]
    each = 4 if step["has_biases"] else 2
    if len(flat) != layers * directions * each:
        raise step.fail("expected an LSTM without projections, but got proj_size")
    groups = [flat[i : i + each] for i in range(0, len(flat), each)]
    return [groups[i : i + directions] for i in range(0, len(groups), directions)]


def _packed(step: Step, own: Sequence[Sequence[Value]], order: Sequence[int]) -> list[Value | None]:
    """W, R and B of all directions, their gates in ONNX's order."""
    w, r = (stack(step, [_reordered(step, one[i], order) for one in own], 0) for i in (0, 1))
    if len(own[0]) == 2:
        return [w, r, None]
    biases = [concat(step, [_reordered(step, b, order) for b in one[2:]], 0) for one in own]
    return [w, r, stack(step, biases, 0)]


def _reordered(step: Step, weight: Value, order: Sequence[int]) -> Value:
    size = weight.shape[0] // len(order)
    if list(order) == sorted(order):
        return weight
    return concat(step, [part(step, weight, 0, gate * size, (gate + 1) * size) for gate in order], 0)


CONVERTERS: dict[str, Convert] = dict.fromkeys((*KINDS, *(f"mlc::{kind}" for kind in KINDS)), _recurrent)
