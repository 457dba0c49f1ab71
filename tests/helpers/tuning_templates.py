"""Templates for tests: processes of farms import them from here."""

from __future__ import annotations

import mlc
from mlc import te


def product_of(n, m, k):
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    axis = te.reduce_axis(k, "k")
    return [a, b, te.compute((n, m), lambda i, j: te.sum(a[i, axis] * b[axis, j], axis=axis), name="C")]


@mlc.tuning.template
def gemm(cfg, n, m, k):
    """A product in tiles, whose inner loops are ordered, unrolled and vectorized as the configuration says."""
    s = mlc.Schedule(product_of(n, m, k), cfg.target)
    c = s["C"]
    i, j, p = s.loops(c)
    cfg.define_split("tile_i", i, num_outputs=2, filter=lambda one: one.size[-1] <= 8)
    cfg.define_split("tile_j", j, policy="verbose", num_outputs=2, max_factor=32, no_tail=True)
    cfg.define_split("tile_k", p, num_outputs=2, max_factor=4)
    cfg.define_reorder("order", ["k", "ki", "i"], "candidate", candidate=[["k", "ki", "i"], ["k", "i", "ki"]])
    cfg.define_annotate("inner", ["i", "j"], "try_unroll_vec")
    cfg.define_knob("parallel", [False, True])
    if cfg.is_fallback:
        cfg.fallback_split("tile_i", [-1, 4])
        cfg.fallback_split("tile_j", [-1, 16])
        cfg["inner"] = mlc.tuning.AnnotateEntity(("unroll", "vec"))
    io, ii = cfg["tile_i"].apply(s, c, i)
    jo, ji = cfg["tile_j"].apply(s, c, j)
    po, pi = cfg["tile_k"].apply(s, c, p)
    s.reorder(io, jo, po, pi, ii, ji)
    cfg["order"].apply(s, c, [po, pi, ii])
    if cfg["parallel"].val:
        s.parallel(io)
    cfg["inner"].apply(s, c, [ii, ji])
    return s


@mlc.tuning.template(version=2)
def scaled(cfg, n, factor=2.0):
    """`factor` times a vector; operations are given, and odd tiles are refused."""
    x = te.placeholder((n,), name="x")
    s = mlc.Schedule([x, te.compute((n,), lambda i: x[i] * factor, name="y")], cfg.target)
    cfg.define_knob("tile", [4, 8, 3])
    cfg.add_flop(7 * n)
    if cfg["tile"].val % 2:
        cfg.raise_error("expected an even tile")
    s.split(s.loops(s["y"])[0], [None, cfg["tile"].val])
    return s
