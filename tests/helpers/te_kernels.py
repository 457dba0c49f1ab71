"""Kernels of mlc.te with scans and reducers of their own, as te text; integers in them stay exact."""

from __future__ import annotations

from mlc import te


def running_sums() -> str:
    """Two states of differing shapes, a reduction in each step, and a stage that reads all steps."""
    x, w = te.placeholder((6, 8), name="x"), te.placeholder((8, 8), name="w")
    h, c = te.placeholder((6, 8), name="h"), te.placeholder((6,), name="c")
    k, l, t = te.reduce_axis(8, "k"), te.reduce_axis(8, "l"), te.reduce_axis(6, "t")  # noqa: E741
    mixed = te.compute((6, 8), lambda t, j: te.sum(h[t - 1, k] * w[k, j], axis=k), "mixed")
    low = te.compute((6, 8), lambda t, j: te.minimum(te.maximum(mixed[t, j], -2.0), 2.0) + x[t, j], "low")
    total = te.compute((6,), lambda t: te.sum(low[t, l], axis=l), "total")
    count = te.compute((6,), lambda t: c[t - 1] + total[t], "count")
    first = te.compute((1, 8), lambda t, j: x[t, j], "first")
    zero = te.compute((1,), lambda t: x[t, 0], "zero")
    states, counts = te.scan([first, zero], [low, count], [h, c], name="steps")
    last = te.compute((8,), lambda j: te.sum(states[t, j], axis=t), "last")
    return str(te.func("running_sums", [x, w], [counts, last]))


def nearest() -> str:
    """The least value and its place, by a reducer of pairs, and what is done with them."""
    x = te.placeholder((6, 12), name="x")
    k = te.reduce_axis(12, "k")

    def lesser(a, b):
        first = (a[0] < b[0]) | (te.equal(a[0], b[0]) & (a[1] < b[1]))
        return te.where(first, a[0], b[0]), te.where(first, a[1], b[1])

    least = te.comm_reducer(lesser, lambda t, u: (te.max_value(t), te.max_value(u)), name="lesser")
    value, place = te.compute((6,), lambda i: least((x[i, k], te.cast(k, "int32")), axis=k), "nearest")
    moved = te.compute((6, 12), lambda i, j: x[i, j] - value[i] + te.cast(place[i], "float32"), "moved")
    return str(te.func("nearest", [x], [moved]))


def window_of_two() -> str:
    """A scan that reads two steps back, of a state that is no output."""
    x, s = te.placeholder((7, 12), name="x"), te.placeholder((7, 12), name="s")
    first = te.compute((2, 12), lambda t, i: x[t, i], "first")
    step = te.compute((7, 12), lambda t, i: te.maximum(s[t - 1, i], s[t - 2, 11 - i]) - x[t, i], "step")
    states = te.scan(first, step, s, name="fold")
    out = te.compute((7, 12), lambda t, i: states[6 - t, i] + 1.0, "out")
    return str(te.func("window_of_two", [x], [out]))


KERNELS = {"running_sums": running_sums, "nearest": nearest, "window_of_two": window_of_two}
