"""Declared intrinsics are run: what is emitted computes what is meant, on random values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from xdsl.dialects.builtin import MemRefType

from mlc.dialects import loop, sched
from mlc.dialects.sched.intrinsic import EMITS, MEANS
from mlc.interp import loop as interp
from mlc.interp.values import dtype_of
from mlc.support.errors import fail

DRAWS = 3
"""How often an intrinsic is run: once on each of so many draws."""


def check_intrinsics(intrinsics: Sequence[sched.IntrinsicOp]) -> None:
    """UserError for an intrinsic that computes other values than it means."""
    for intrinsic in intrinsics:
        if (reason := _difference(str(intrinsic), intrinsic)) is not None:
            fail(intrinsic, f"expected '{intrinsic.intrin.data}' to compute what it means, but {reason}")


class _ByText:
    """An intrinsic that is equal to others of its text, as a key."""

    def __init__(self, text: str, intrinsic: sched.IntrinsicOp) -> None:
        self.text, self.intrinsic = text, intrinsic

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByText) and self.text == other.text


def _difference(text: str, intrinsic: sched.IntrinsicOp) -> str | None:
    return _compared(_ByText(text, intrinsic))


@lru_cache(maxsize=256)
def _compared(key: _ByText) -> str | None:
    means, emits = (_alone(key.intrinsic.function(name)) for name in (MEANS, EMITS))
    for seed in range(DRAWS):
        arrays = random_operands(means, seed)
        wanted, got = (interp.run(f, [a.copy() for a in arrays]) for f in (means, emits))
        for a, b in zip(wanted, got, strict=True):
            equal = np.isclose(b, a, rtol=1e-5, atol=1e-5) if a.dtype.kind == "f" else a == b
            if not equal.all():
                at = tuple(int(k) for k in np.argwhere(~equal)[0])
                return f"it gives {b[at]} at {list(at)} in place of {a[at]}"
    return None


def _alone(function: loop.FuncOp) -> loop.FuncOp:
    """A function of an intrinsic, by itself."""
    return function.clone()


def random_operands(function: loop.FuncOp, seed: int) -> list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    """Arrays for all operands, whole ranges of narrow integers included."""
    rng = np.random.default_rng(seed)
    made: list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = []
    for argument in function.args:
        assert isinstance(argument.type, MemRefType)
        dtype, shape = dtype_of(argument.type.element_type), argument.type.get_shape()
        if dtype.kind == "f":
            made.append(rng.standard_normal(shape).astype(dtype))
        elif dtype.kind == "b":
            made.append(rng.integers(0, 2, shape).astype(dtype))
        else:
            top = 1 << min(8 * dtype.itemsize - 1, 20)
            made.append(rng.integers(-top, top, shape).astype(dtype))
    return made
