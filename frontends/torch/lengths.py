"""
Recurrent layers over sequences of symbolic length, which torch.export would unroll, and so fix the length.

While a module is exported, its calls of `torch.lstm`, `gru`, `rnn_tanh` and `rnn_relu` become calls of ops that mlc
defines with the same arguments and a shape function only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_REST = (
    "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first"
)
_SCHEMAS = {
    "lstm": f"(Tensor input, Tensor[] hx, {_REST}) -> (Tensor, Tensor, Tensor)",
    **dict.fromkeys(("gru", "rnn_tanh", "rnn_relu"), f"(Tensor input, Tensor hx, {_REST}) -> (Tensor, Tensor)"),
}


def _shapes(
    x: torch.Tensor,
    hx: torch.Tensor | list[torch.Tensor] | tuple[torch.Tensor, ...],
    params: Sequence[torch.Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, ...]:
    """The shape function: tensors like a recurrent layer's results."""
    states = hx if isinstance(hx, list | tuple) else [hx]
    width = states[0].shape[-1] * (2 if bidirectional else 1)
    return x.new_empty((*x.shape[:-1], width)), *(x.new_empty(state.shape) for state in states)


def _defined() -> tuple[Any, Mapping[Callable[..., Any], Callable[..., Any]]]:
    """The library of the ops, which must outlive them, and torch's function -> the op."""
    library = torch.library.Library("mlc", "DEF")
    ops: dict[Callable[..., Any], Callable[..., Any]] = {}
    for name, schema in _SCHEMAS.items():
        library.define(name + schema)  # pyright: ignore[reportUnknownMemberType] torch does not type all its parameters
        torch.library.register_fake(f"mlc::{name}", _shapes, lib=library)  # pyright: ignore[reportUnknownMemberType] torch does not type all its parameters
        function = getattr(torch._VF, name)  # pyright: ignore[reportPrivateUsage] torch has no public name for it
        ops[function] = getattr(torch.ops.mlc, name)
    return library, ops


_LIBRARY, _OPS = _defined()


class OpenLengths(TorchFunctionMode):
    """In this context, recurrent layers of unpacked sequences are calls of mlc's ops."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        op = _OPS.get(func)
        if op is None or isinstance(args[3], list | tuple):  # the lengths of packed sequences
            op = func
        return op(*args, **kwargs or {})


__all__ = ["OpenLengths"]
