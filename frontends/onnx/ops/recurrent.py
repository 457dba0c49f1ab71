"""ONNX's recurrent layers: RNN, GRU and LSTM."""

from __future__ import annotations

from mlc.frontends.common.ops.recurrent import (
    ACTIVATIONS,
    RECURRENT_KINDS,
    Activation,
    RecurrentKind,
    RecurrentLayer,
    activation,
    recurrent,
)
from mlc.frontends.common.values import Value
from mlc.frontends.onnx.node import Converter, Node

BIAS, LENGTHS, FIRST_STATE, PEEPHOLES = 3, 4, 5, 7
"""Indices of inputs: RNN and GRU have one initial state, LSTM two, then its peepholes."""
DIRECTIONS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
"""ONNX's name -> of each direction, whether it is backward."""


def _recurrent(node: Node) -> list[Value]:
    kind = RECURRENT_KINDS[node.kind]
    directions = node.input(1).shape[0]
    backward = DIRECTIONS.get(node.attr("direction", "forward"), [])
    if len(backward) != directions:
        raise node.fail(f"expected weights for the direction {node.attr('direction', 'forward')}, but got {directions}")
    layer = RecurrentLayer(
        kind,
        node.input(1),
        node.input(2),
        _optional(node, BIAS),
        _optional(node, LENGTHS),
        [_optional(node, FIRST_STATE + s) for s in range(kind.states)],
        _optional(node, PEEPHOLES) if node.kind == "LSTM" else None,
        backward,
        [_activations(node, kind, d) for d in range(directions)],
        bool(node.attr("linear_before_reset", 0)),
        bool(node.attr("input_forget", 0)),
        bool(node.attr("layout", 0)),
    )
    return recurrent(node, node.input(0), layer)


def _optional(node: Node, index: int) -> Value | None:
    return node.input(index) if node.has(index) else None


def _activations(node: Node, kind: RecurrentKind, direction: int) -> list[Activation]:
    """The activations of a direction; the attribute clip holds for all but an LSTM's of its cell state."""
    count = len(kind.activations)
    names = node.attr("activations", list(kind.activations) * 2)
    names = [n if isinstance(n, str) else n.decode() for n in names]
    given = {a: iter(node.attr(f"activation_{a}", [])) for a in ("alpha", "beta")}
    known = {name.lower(): facts for name, facts in ACTIVATIONS.items()}
    clip = node.attr("clip", 0.0)
    result: list[Activation] = []
    for place, name in enumerate(names):
        if name.lower() not in known:
            raise node.fail(f"expected activations of {', '.join(ACTIVATIONS)}, but got {name}")
        one = known[name.lower()]
        values = {a: next(given[a], default) for a, default in one[1].items()}
        result.append(activation(node, one, values, 0.0 if place % count == 2 else clip))
    return result[direction * count : (direction + 1) * count]


CONVERTERS: dict[str, Converter] = dict.fromkeys(RECURRENT_KINDS, _recurrent)
