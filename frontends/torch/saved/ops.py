"""The calls that a program in a file may make: ATen ops on tensors and numbers, arithmetic on sizes."""

from __future__ import annotations

import re
from typing import Any

import torch

from mlc.frontends.torch.call import is_overload, schema_of
from mlc.frontends.torch.importer import REGIONS

_ATEN = re.compile(r"torch\.ops\.aten\.(\w+)\.(\w+)", re.ASCII)
_HIGHER = "torch.ops.higher_order."
_ARITHMETIC = frozenset(
    f"_operator.{name}"
    for name in ("add", "and_", "eq", "floordiv", "ge", "getitem", "gt", "le", "lshift", "lt", "mod", "mul", "ne",
                 "neg", "not_", "or_", "pos", "pow", "rshift", "sub", "truediv")
) | frozenset(
    {"math.ceil", "math.floor", "math.trunc", "torch.sym_float", "torch.sym_int", "torch.sym_ite", "torch.sym_max",
     "torch.sym_min", "torch.sym_not", "torch.sym_sum", "torch._check", "torch._check_is_size"}
)  # fmt: skip
"""Python's and torch's functions of sizes."""
_TEXTS = frozenset(
    {
        "UPLO", "activation", "approximate", "assert_msg", "driver", "equation", "indexing", "interpolation", "mode",
        "norm", "ord", "p", "pad_mode", "padding", "padding_side", "reduce", "rounding_mode", "side",
    }
)  # fmt: skip
"""Text arguments of ATen ops that select a computation; other text arguments may name files."""


def is_known(target: object) -> bool:
    """Whether a call of this name computes on its arguments alone."""
    if not isinstance(target, str):
        return False
    if target.startswith(_HIGHER):
        return target.removeprefix(_HIGHER) in REGIONS
    named = _ATEN.fullmatch(target)
    return target in _ARITHMETIC if named is None else _is_computation(named[1], named[2])


def _is_computation(name: str, overload: str) -> bool:
    op: Any = getattr(getattr(torch.ops.aten, name, None), overload, None)
    if not is_overload(op):
        return False
    return all(argument.name in _TEXTS or "str" not in str(argument.type) for argument in schema_of(op).arguments)


__all__ = ["is_known"]
