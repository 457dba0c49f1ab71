"""The table of converters of ATen ops, and which ops torch must not decompose."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, cast

import torch
from torch.fx.node import Target

from mlc.frontends.torch.call import Convert, op_name

NOT_DECOMPOSED = frozenset(
    {
        "einsum", "gelu", "group_norm", "gru", "hardshrink", "hardsigmoid", "hardswish", "instance_norm", "layer_norm",
        "linear", "lstm", "matmul", "mish", "pixel_shuffle", "pixel_unshuffle", "prelu", "rms_norm", "rnn_relu",
        "rnn_tanh",
        "scaled_dot_product_attention", "silu", "softplus", "softshrink", "select_scatter",
        "upsample_bicubic2d", "upsample_bilinear2d", "upsample_linear1d", "upsample_nearest1d", "upsample_nearest2d",
        "upsample_nearest3d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
        "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
        "adaptive_max_pool1d", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
        "replication_pad2d", "replication_pad3d", "tril", "triu", "roll", "stack", "var", "addcmul", "_safe_softmax",
    }
)  # fmt: skip
"""Ops that torch would decompose, but that have converters of their own."""


DECOMPOSED = ("addmv", "tril_indices", "triu_indices")
"""Ops that torch has a decomposition of, but does not decompose for core ATen."""


@cache
def converters() -> dict[str, Convert]:
    """The name of an ATen op -> its converter; no op has two."""
    from mlc.frontends.torch.ops import (
        bags,
        elementwise,
        experts,
        indexing,
        layers,
        make,
        recurrent,
        reduce,
        shape,
        windows,
    )

    modules = (bags, elementwise, experts, indexing, layers, make, recurrent, reduce, shape, windows)
    return assembled({module.__name__: module.CONVERTERS for module in modules})


def assembled(modules: Mapping[str, Mapping[str, Convert]]) -> dict[str, Convert]:
    """The converters of all modules; ValueError for an op that two of them have."""
    table: dict[str, Convert] = {}
    for module, converters in modules.items():
        if twice := converters.keys() & table.keys():
            raise ValueError(f"expected one converter of each op, but {module} has another of {sorted(twice)}")
        table |= converters
    return table


def _is_not_decomposed(op: Target) -> bool:
    return op_name(op) in NOT_DECOMPOSED & converters().keys()


def decompositions() -> Any:
    """torch's decompositions to core ATen, for `ExportedProgram.run_decompositions`."""
    from torch.export import default_decompositions

    table: Any = default_decompositions()
    for op in [op for op in table if _is_not_decomposed(op)]:
        del table[op]
    table.update(_further())
    return table


def _further() -> dict[Any, Any]:
    from torch._decomp import get_decompositions  # pyright: ignore[reportUnknownVariableType] torch types it in part

    return cast("dict[Any, Any]", get_decompositions([getattr(torch.ops.aten, name) for name in DECOMPOSED]))


def graph_decompositions() -> dict[Any, Any]:
    """torch's decompositions to core ATen, for AOTAutograd."""
    from torch._decomp import core_aten_decompositions

    core = cast("dict[Any, Any]", core_aten_decompositions())  # torch leaves its functions untyped
    table = {op: function for op, function in core.items() if not _is_not_decomposed(op)}
    return {**table, **_further()}
