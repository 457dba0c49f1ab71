"""ATen op -> what converts a call of it, and which ops are converted whole rather than decomposed."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from mlc.frontends.torch.step import Convert, op_name

KEPT = frozenset(
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
"""Ops that torch would take apart, but the graph dialect says as they are."""


TAKEN_APART = ("addmv", "tril_indices", "triu_indices")
"""Ops that torch could take apart, but does not for core ATen."""


@cache
def converters() -> dict[str, Convert]:
    """The name of an ATen op -> what converts a call of it."""
    from mlc.frontends.torch.ops import bags, elementwise, indexing, layers, make, recurrent, reduce, shape, windows

    modules = (elementwise, reduce, shape, indexing, bags, make, layers, windows, recurrent)
    return {name: convert for module in modules for name, convert in module.CONVERTERS.items()}


def _is_kept(op: Any) -> bool:
    return op_name(op) in KEPT & converters().keys()


def decompositions() -> Any:
    """torch's decompositions to core ATen, for `ExportedProgram.run_decompositions`."""
    from torch.export import default_decompositions

    table: Any = default_decompositions()
    for op in [op for op in table if _is_kept(op)]:
        del table[op]
    table.update(_further())
    return table


def _further() -> dict[Any, Any]:
    from torch._decomp import get_decompositions

    return get_decompositions([getattr(torch.ops.aten, name) for name in TAKEN_APART])


def graph_decompositions() -> dict[Any, Any]:
    """torch's decompositions to core ATen, for AOTAutograd."""
    from torch._decomp import core_aten_decompositions

    table = {op: function for op, function in core_aten_decompositions().items() if not _is_kept(op)}
    return {**table, **_further()}
