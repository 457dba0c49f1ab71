"""Convolutions and products written in te with affine indices are scheduled as contractions, whatever their layouts."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc import te
from mlc.dialects.te_builder.builder import Tensor

SIZE, CHANNELS, OUTPUTS, TAPS = 23, 8, 24, 3
Case = tuple[str, str, int, int]
"""The layout of the picture, of the kernel, stride and dilation."""

CASES: list[Case] = [
    *[("NCHW", kernel, stride, dilation) for kernel in ("OIHW", "O1HW") for stride in (1, 2, 3) for dilation in (1, 2)],
    *[("NHWC", kernel, stride, 1) for kernel in ("OIHW", "HWIO", "OHWI", "HW1O") for stride in (1, 2)],
]


def index_of(layout: str, **at: Any) -> tuple[Any, ...]:
    """Indices by letter, in the order of a layout; letters that are not given are left out."""
    return tuple(at[letter] for letter in layout if letter in at)


def sizes_of(case: Case) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """The shapes of picture and kernel, and the rows of the result."""
    layout, kernel, stride, dilation = case
    rows = (SIZE - dilation * (TAPS - 1) - 1) // stride + 1
    inputs = {} if "1" in kernel else {"I": CHANNELS}
    outputs = CHANNELS if "1" in kernel else OUTPUTS
    return (
        index_of(layout, N=2, C=CHANNELS, H=SIZE, W=SIZE),
        index_of(kernel, O=outputs, H=TAPS, W=TAPS, **inputs),
        rows,
    )


def convolution(case: Case, after: Callable[[Any], Any] | None = None) -> list[Tensor]:
    """Picture, kernel and result in te."""
    layout, kernel, stride, dilation = case
    picture, weights, rows = sizes_of(case)
    x, w = te.placeholder(picture, name="x"), te.placeholder(weights, name="w")
    c, r, s = (te.reduce_axis(n, name) for n, name in ((CHANNELS, "c"), (TAPS, "r"), (TAPS, "s")))
    depthwise = "1" in kernel

    def element(*i: Any) -> Any:
        at = dict(zip(layout, i, strict=True))
        channel = at["C"] if depthwise else c
        row, column = at["H"] * stride + r * dilation, at["W"] * stride + s * dilation
        inputs = {} if depthwise else {"I": c}
        factor = w[index_of(kernel, O=at["C"], H=r, W=s, **inputs)]
        window = x[index_of(layout, N=at["N"], C=channel, H=row, W=column)]
        return te.sum(window * factor, axis=(r, s) if depthwise else (c, r, s))

    shape = index_of(layout, N=2, C=CHANNELS if depthwise else OUTPUTS, H=rows, W=rows)
    y = te.compute(shape, element, "y")
    return [x, w, y if after is None else te.compute(shape, lambda *i: after(y[i]), "after")]


def expected_of(case: Case, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The convolution by numpy, tap by tap."""
    layout, kernel, stride, dilation = case
    rows = sizes_of(case)[2]
    total: Any = 0.0
    for r, s in np.ndindex(TAPS, TAPS):
        span = [slice(t * dilation, t * dilation + stride * (rows - 1) + 1, stride) for t in (r, s)]
        window = x[index_of(layout, N=slice(None), C=slice(None), H=span[0], W=span[1])]
        tap = w[index_of(kernel.replace("1", ""), O=slice(None), I=slice(None), H=r, W=s)]
        if "1" in kernel:
            total = total + (window * tap[:, None, None] if layout == "NCHW" else window * tap)
        else:
            letters = "".join(letter for letter in kernel if letter in "OI")
            result = layout.replace("C", "O")
            total = total + np.einsum(f"{layout.replace('C', 'I')},{letters}->{result}", window, tap)
    return total


def strategy_of(op: Any) -> str:
    """The strategy that a built operator's schedule names."""
    found = re.search(r'strategy = "(\w+)"', op.text("te"))
    assert found is not None
    return found[1]


def arrays(op: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(spec.shape, dtype=np.float32) for spec in op.inputs]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_convolution_in_te_is_a_contraction(case: Case) -> None:
    op = mlc.build(convolution(case), threads=1, cache=False)
    assert strategy_of(op) in ("contraction", *["planes"] * (case[:2] == ("NCHW", "O1HW")))
    x, w = arrays(op)
    np.testing.assert_allclose(op(x, w), expected_of(case, x, w), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("target", ["native", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("case", [("NCHW", "OIHW", 2, 1), ("NHWC", "OIHW", 2, 1)], ids=str)
def test_its_epilogue_is_computed_on_the_tile(case: Case, target: str) -> None:
    op = mlc.build(convolution(case, lambda v: te.maximum(v, 0.0)), target=target, threads=2, cache=False)
    assert strategy_of(op) == "contraction"
    x, w = arrays(op)
    np.testing.assert_allclose(op(x, w), np.maximum(expected_of(case, x, w), 0), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("copied", [True, False], ids=["padded copy", "masked reads"])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_padded_convolution(stride: int, copied: bool) -> None:
    case: Case = ("NCHW", "OIHW", stride, 1)
    picture, weights, rows = sizes_of(case)
    bare, w = te.placeholder((*picture[:2], SIZE - 2, SIZE - 2), name="bare"), te.placeholder(weights, name="w")

    def padded(n: Any, c: Any, i: Any, j: Any) -> Any:
        borders = [i - 1, SIZE - 2 - i, j - 1, SIZE - 2 - j]
        return bare.read((n, c, i - 1, j - 1), mask=borders)

    x = te.compute(picture, padded, "padded") if copied else None
    c, r, s = (te.reduce_axis(n, name) for n, name in ((CHANNELS, "c"), (TAPS, "r"), (TAPS, "s")))

    def window(n: Any, o: Any, i: Any, j: Any) -> Any:
        at = n, c, i * stride + r, j * stride + s
        return te.sum(w[o, c, r, s] * (padded(*at) if x is None else x[at]), axis=(c, r, s))

    y = te.compute((2, OUTPUTS, rows, rows), window, "y")
    op = mlc.build([bare, w, y], threads=1, cache=False)
    assert strategy_of(op) == "contraction"
    small, factors = arrays(op)
    expected = expected_of(case, np.pad(small, ((0, 0), (0, 0), (1, 1), (1, 1))), factors)
    np.testing.assert_allclose(op(small, factors), expected, rtol=1e-5, atol=1e-4)


def test_a_convolution_along_one_axis_with_strided_lanes() -> None:
    x, w = te.placeholder((4, 6, 101), name="x"), te.placeholder((10, 6, 5), name="w")
    c, r = te.reduce_axis(6, "c"), te.reduce_axis(5, "r")
    y = te.compute((4, 10, 33), lambda n, o, i: te.sum(x[n, c, i * 3 + r] * w[o, c, r], axis=(c, r)), "y")
    op = mlc.build([x, w, y], threads=1, cache=False)
    assert strategy_of(op) == "contraction"
    a, b = arrays(op)
    windows = np.stack([a[:, :, t : t + 97 : 3] for t in range(5)], axis=-1)
    np.testing.assert_allclose(op(a, b), np.einsum("ncir,ocr->noi", windows, b), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("along", "strategy"), [("m", "matmul"), ("k", "matmul"), ("n", "matmul")])
def test_a_batch_of_strided_products(along: str, strategy: str) -> None:
    step = {name: 2 if name == along else 1 for name in "mnk"}
    x = te.placeholder((3, 37 * step["m"], 48 * step["k"]), name="x")
    w = te.placeholder((3, 48, 40 * step["n"]), name="w")
    k = te.reduce_axis(48, "k")
    y = te.compute(
        (3, 37, 40),
        lambda b, i, j: te.sum(x[b, i * step["m"], k * step["k"]] * w[b, k, j * step["n"]], axis=k),
        "y",
    )
    op = mlc.build([x, w, y], threads=1, cache=False)
    assert strategy_of(op) == strategy
    a, b = arrays(op)
    np.testing.assert_allclose(op(a, b), a[:, :: step["m"], :: step["k"]] @ b[:, :, :: step["n"]], rtol=1e-5, atol=1e-4)
