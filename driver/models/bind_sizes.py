"""Substitution of numbers for the symbolic sizes of a model in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlc.dialects.graph.symbols import bind
from mlc.driver.describe.symbolic import signature_of
from mlc.frontends.common.model import Model
from mlc.frontends.common.sizes import check_shapes
from mlc.runtime.sizes import Sizes, text
from mlc.support.errors import UserError
from mlc.support.weights import WeightStore


def copied(model: Model) -> Model:
    """A copy whose module and store may be changed; the weights' arrays are shared."""
    return Model(model.module.clone(), copied_store(model.weights))


def copied_store(weights: WeightStore) -> WeightStore:
    """A copy of a store that may be changed; the arrays are shared."""
    store = WeightStore()
    for name in weights:
        entry = weights.entry(name)
        if entry.is_fill:
            store.add_fill(name, entry.data, entry.shape, entry.dtype)
        else:
            store.add(name, entry.data)
    store.narrow.update(weights.narrow)
    return store


def bound_to(model: Model, values: Mapping[str, int]) -> Model:
    """A copy of a model with these values in the place of its symbols."""
    result = copied(model)
    bind(result.main, values)
    return result


def with_shapes(model: Model, shapes: Mapping[str, Sequence[Any]] | None) -> Model:
    """
    The model for inputs of these shapes: a copy, unless they are those that it has.

    `shapes` maps input names to sizes; a symbol's name stands for a size that stays open. Raises UserError for an
    unknown input, and for sizes that do not fit the model or each other.
    """
    check_shapes(shapes)
    if not shapes:
        return model
    signature = signature_of(model)
    declared = {name: [text(size) for size in sizes] for name, sizes, _ in signature["inputs"]}
    for name in shapes:
        if name not in declared:
            raise UserError(f"expected shapes of inputs {', '.join(declared)}, but got an unknown input '{name}'")
    wanted = {name: list(shapes.get(name, sizes)) for name, sizes in declared.items()}
    if wanted == declared:
        return model
    for name, sizes in wanted.items():
        for axis, size in enumerate(sizes):
            if not isinstance(size, int):
                raise UserError(f"expected a number for axis {axis} of input '{name}' in shapes=, but got {size!r}")
    try:
        bound = Sizes({**signature, "buffers": []}).bind([tuple(sizes) for sizes in wanted.values()])
    except ValueError as error:
        raise UserError(f"shapes=: {error}; only sizes that the model leaves open can be given") from error
    return bound_to(model, bound.values)


__all__ = ["bound_to", "copied", "with_shapes"]
