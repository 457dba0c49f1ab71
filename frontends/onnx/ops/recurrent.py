"""ONNX's recurrent layers: RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from mlc.frontends.common.ops.recurrent import (
    ACTIVATIONS,
    RECURRENT_KINDS,
    Activation,
    RecurrentKind,
    RecurrentLayer,
    RowProduct,
    activation,
    float_products,
    recurrent,
)
from mlc.frontends.common.values import Value
from mlc.frontends.onnx.node import Converter, Node

BIAS, LENGTHS, FIRST_STATE, PEEPHOLES = 3, 4, 5, 7
"""Indices of inputs: RNN and GRU have one initial state, LSTM two, then its peepholes."""
DIRECTIONS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
"""ONNX's name -> of each direction, whether it is backward."""


def _recurrent(node: Node) -> list[Value]:
    weights, states = node.input(1), node.input(2)
    products = float_products(node, weights), float_products(node, states)
    return recurrent_layer(node, node.kind, weights.shape[0], states.shape[2], products)


Products: TypeAlias = Callable[[int], RowProduct]
"""The products with the weights of each direction."""


def recurrent_layer(
    node: Node, name: str, directions: int, hidden: int, products: tuple[Products, Products]
) -> list[Value]:
    """A layer of ONNX's inputs and attributes, by the products of its inputs and those of its states."""
    kind = RECURRENT_KINDS[name]
    backward = DIRECTIONS.get(node.attr("direction", "forward"), [])
    if len(backward) != directions:
        raise node.fail(f"expected weights for the direction {node.attr('direction', 'forward')}, but got {directions}")
    layer = RecurrentLayer(
        kind,
        hidden,
        *products,
        _optional(node, BIAS),
        _optional(node, LENGTHS),
        [_optional(node, FIRST_STATE + s) for s in range(kind.states)],
        _optional(node, PEEPHOLES) if name == "LSTM" else None,
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
