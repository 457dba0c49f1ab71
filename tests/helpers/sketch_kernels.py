"""Small operators of mlc.te of many kinds, with sizes that no tile divides, for generated schedules."""

from __future__ import annotations

from collections.abc import Callable

from mlc import te
from mlc.dialects.te import FuncOp


def dense() -> FuncOp:
    """A product with a bias and a maximum behind it."""
    x, w, b = te.placeholder((13, 30), name="x"), te.placeholder((30, 50), name="w"), te.placeholder((50,), name="b")
    k = te.reduce_axis(30, "k")
    y = te.compute((13, 50), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), "dense")
    z = te.compute((13, 50), lambda i, j: te.maximum(y[i, j] + b[j], 0.0), "relu")
    return te.func("dense", [x, w, b], [z])


def conv2d() -> FuncOp:
    """A convolution of a padded image."""
    x, w = te.placeholder((5, 9, 11), name="x"), te.placeholder((7, 5, 3, 3), name="w")
    padded = te.compute(
        (5, 11, 13),
        lambda c, i, j: te.if_then_else((i >= 1) & (i < 10) & (j >= 1) & (j < 12), x[c, i - 1, j - 1], 0.0),
        "padded",
    )
    c, u, v = te.reduce_axis(5, "c"), te.reduce_axis(3, "u"), te.reduce_axis(3, "v")
    y = te.compute((7, 9, 11), lambda o, i, j: te.sum(padded[c, i + u, j + v] * w[o, c, u, v], axis=[c, u, v]), "conv")
    return te.func("conv2d", [x, w], [y])


def batch_matmul() -> FuncOp:
    """Three products with the second operand transposed."""
    a, b = te.placeholder((3, 14, 20), name="a"), te.placeholder((3, 33, 20), name="b")
    k = te.reduce_axis(20, "k")
    y = te.compute((3, 14, 33), lambda n, i, j: te.sum(a[n, i, k] * b[n, j, k], axis=k), "product")
    return te.func("batch_matmul", [a, b], [y])


def softmax() -> FuncOp:
    """Two reductions along rows and what reads them."""
    x = te.placeholder((11, 37), name="x")
    k, l = te.reduce_axis(37, "k"), te.reduce_axis(37, "l")  # noqa: E741
    most = te.compute((11,), lambda i: te.max(x[i, k], axis=k), "most")
    powers = te.compute((11, 37), lambda i, j: te.exp(x[i, j] - most[i]), "powers")
    total = te.compute((11,), lambda i: te.sum(powers[i, l], axis=l), "total")
    y = te.compute((11, 37), lambda i, j: powers[i, j] / total[i], "softmax")
    return te.func("softmax", [x], [y])


def total() -> FuncOp:
    """One sum of all elements."""
    x = te.placeholder((24, 32), name="x")
    i, k = te.reduce_axis(24, "i"), te.reduce_axis(32, "k")
    y = te.compute((1,), lambda n: te.sum(x[i + n, k], axis=[i, k]), "total")
    return te.func("total", [x], [y])


def columns() -> FuncOp:
    """Sums along the leading axis, and a square root."""
    x = te.placeholder((29, 45), name="x")
    k = te.reduce_axis(29, "k")
    y = te.compute((45,), lambda j: te.sum(x[k, j] * x[k, j], axis=k), "squares")
    z = te.compute((45,), lambda j: te.sqrt(y[j]), "norm")
    return te.func("columns", [x], [z])


def pooling() -> FuncOp:
    """The maximum in windows of three by three at every second place."""
    x = te.placeholder((6, 15, 19), name="x")
    u, v = te.reduce_axis(3, "u"), te.reduce_axis(3, "v")
    y = te.compute((6, 7, 9), lambda c, i, j: te.max(x[c, i * 2 + u, j * 2 + v], axis=[u, v]), "pool")
    return te.func("pooling", [x], [y])


def places() -> FuncOp:
    """The place of the largest element of each row."""
    x = te.placeholder((10, 23), name="x")
    k = te.reduce_axis(23, "k")
    most, place = te.compute((10,), lambda i: te.argmax(x[i, k], axis=k), "largest")
    return te.func("places", [x], [most, place])


def chain() -> FuncOp:
    """Pointwise stages that read one another, one of them twice."""
    x = te.placeholder((9, 40), name="x")
    a = te.compute((9, 40), lambda i, j: x[i, j] * 2.0, "a")
    b = te.compute((9, 40), lambda i, j: a[i, j] + a[8 - i, j], "b")
    return te.func("chain", [x], [te.compute((9, 40), lambda i, j: te.tanh(b[i, j]) + a[i, j], "c")])


def transposed() -> FuncOp:
    """A transpose of three axes."""
    x = te.placeholder((5, 18, 21), name="x")
    return te.func("transposed", [x], [te.compute((21, 5, 18), lambda i, j, k: x[j, k, i], "turned")])


def gather() -> FuncOp:
    """Rows chosen by an index in memory, summed up."""
    x, at = te.placeholder((4, 17), name="x"), te.placeholder((9,), name="at", dtype="int32")
    k = te.reduce_axis(9, "k")
    return te.func("gather", [x, at], [te.compute((17,), lambda j: te.sum(x[at[k], j], axis=k), "rows")])


def guarded() -> FuncOp:
    """A reduction that reads only where an index in memory says so: no other strategy accepts it."""
    x, at = te.placeholder((12, 17), name="x"), te.placeholder((12, 8), name="at", dtype="int32")
    k = te.reduce_axis(8, "k")
    y = te.compute((12, 17), lambda i, j: te.sum(te.if_then_else(at[i, k] < 2, x[i, j], 0.0), axis=k), "chosen")
    return te.func("guarded", [x, at], [y])


def bytes_product() -> FuncOp:
    """A product of bytes, summed up in 32 bits."""
    x, w = te.placeholder((6, 16), name="x", dtype="int8"), te.placeholder((16, 35), name="w", dtype="int8")
    k = te.reduce_axis(16, "k")
    y = te.compute(
        (6, 35), lambda i, j: te.sum(te.cast(x[i, k], "int32") * te.cast(w[k, j], "int32"), axis=k), "product"
    )
    return te.func("bytes_product", [x, w], [y])


KERNELS: dict[str, Callable[[], FuncOp]] = {
    f.__name__: f
    for f in (
        dense,
        conv2d,
        batch_matmul,
        softmax,
        total,
        columns,
        pooling,
        places,
        chain,
        transposed,
        gather,
        guarded,
        bytes_product,
    )
}
