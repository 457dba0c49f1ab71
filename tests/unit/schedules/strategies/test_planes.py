"""Depthwise windows over planes of pixels: rows that are read are shared, padding is a mask, values are numpy's."""

import numpy as np
import pytest

import mlc
from mlc import te
from mlc.dialects.te_builder import builder
from mlc.targets.target import Target

CASES = [
    # batch, channels, picture, window, stride, dilation, padding before and after
    (1, 3, (30, 43), (3, 3), 1, 1, (1, 1)),
    (1, 3, (30, 86), (3, 3), 2, 1, (1, 1)),
    (2, 5, (13, 87), (3, 3), 2, 1, (1, 0)),  # no padding behind
    (1, 2, (9, 150), (3, 3), 1, 1, (1, 1)),  # several tiles along a row, the last one ragged
    (1, 2, (9, 401), (3, 3), 2, 1, (1, 1)),  # the same of a strided window
    (1, 3, (7, 7), (5, 5), 1, 1, (2, 2)),
    (1, 3, (17, 40), (3, 3), 3, 1, (1, 1)),
    (1, 3, (20, 33), (3, 3), 1, 3, (3, 3)),
    (1, 3, (3, 2), (5, 5), 1, 1, (4, 4)),  # windows that lie in the padding as a whole
    (1, 4, (12, 21), (1, 7), 1, 1, (0, 0)),  # nothing is padded along the rows
]


def window(case, activation=lambda x: x) -> tuple[te.Tensor, list[te.Tensor], tuple[int, ...]]:
    """(result, inputs, size of the result) of a depthwise convolution on planes."""
    batch, c, size, taps, stride, dilation, pads = case
    x, w = te.placeholder((batch, c, *size), name="x"), te.placeholder((c, *taps), name="w")
    around = [pads if n > 1 else (0, 0) for n in taps]
    padded = [n + sum(p) for n, p in zip(size, around, strict=True)]
    out = [(n - (k - 1) * dilation - 1) // stride + 1 for n, k in zip(padded, taps, strict=True)]

    def pixel(n, ch, i, j):
        at = [i - around[0][0], j - around[1][0]]
        inside = builder.condition([e for n, e in zip(size, at, strict=True) for e in (e, n - 1 - e)])
        return activation(x.read([n, ch, *at], mask=inside, otherwise=0))

    pad = builder.compute((batch, c, *padded), pixel, "pad", attrs=builder.NO_INLINE)
    r, s = te.reduce_axis(taps[0], "r"), te.reduce_axis(taps[1], "s")
    y = te.compute(
        (batch, c, *out),
        lambda n, ch, i, j: te.sum(
            pad[n, ch, i * stride + r * dilation, j * stride + s * dilation] * w[ch, r, s], axis=(r, s)
        ),
        name="y",
    )
    return y, [x, w], (batch, c, *out)


def expected(case, x: np.ndarray, w: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The same in numpy."""
    _, c, _, taps, stride, dilation, pads = case
    around = [pads if n > 1 else (0, 0) for n in taps]
    padded, total = np.pad(x, [(0, 0), (0, 0), *around]), np.zeros(shape)
    rows, columns = ((n - 1) * stride + 1 for n in shape[2:])
    for r in range(taps[0]):
        for s in range(taps[1]):
            at = padded[:, :, r * dilation :, s * dilation :][:, :, :rows:stride, :columns:stride]
            total += at * w[:, r, s].reshape(1, c, 1, 1)
    return total


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("target", "threads"), [("native", 1), ("native", 4), ("x86-64-v3", 1)])
def test_values(case, target, threads):
    y, inputs, shape = window(case)
    kernel = mlc.build([*inputs, y], target=target, threads=threads)
    if Target.parse(target).masked_memory:
        assert 'strategy = "planes"' in kernel.text("te")
        assert "loop.alloc" not in kernel.text("loop")
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(one.shape).astype(np.float32) for one in inputs)
    np.testing.assert_allclose(kernel(x, w), expected(case, x, w, shape), rtol=1e-5, atol=1e-5)


def test_padding_that_computes_is_a_copy():
    """Each element would be computed once a tap."""
    y, inputs, _ = window(CASES[0], te.exp)
    assert 'strategy = "contraction"' in mlc.build([*inputs, y], threads=1).text("te")
