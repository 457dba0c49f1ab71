"""Attention: which graphs become one kernel, and that the kernel's values are right at every size."""

import numpy as np
import pytest

import mlc
from mlc.driver.models.compile import compile as compile_model


def tensor(*shape, element="f32"):
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"


def attention(b, h, n, s, d, e, form="plain"):
    """The text of an attention of n queries and s keys, and what gives its value in float64."""
    q, k, v = tensor(b, n, h, d), tensor(b, s, h, d), tensor(b, s, h, e)
    tq, tk, tv = tensor(b, h, n, d), tensor(b, h, d, s), tensor(b, h, s, e)
    w, o = tensor(b, h, n, s), tensor(b, h, n, e)
    mask, out = tensor(b, 1, 1, s), tensor(b, n, h, e)
    lines = [
        "%c = graph.constant dense<2.5> : tensor<f32>",
        f"%1 = graph.transpose %q {{axes = [0, 2, 1, 3]}} : ({q}) -> {tq}",
        f"%2 = graph.transpose %k {{axes = [0, 2, 3, 1]}} : ({k}) -> {tk}",
        f"%3 = graph.transpose %v {{axes = [0, 2, 1, 3]}} : ({v}) -> {tv}",
    ]
    if form == "scaled":  # as torch writes scaled_dot_product_attention
        lines += [
            f"%4 = graph.multiply %1, %c : ({tq}, tensor<f32>) -> {tq}",
            f"%5 = graph.batch_matmul %4, %2 : ({tq}, {tk}) -> {w}",
            f"%6 = graph.add %5, %m : ({w}, {mask}) -> {w}",
        ]
    elif form == "bare":
        lines += [f"%6 = graph.batch_matmul %1, %2 : ({tq}, {tk}) -> {w}"]
    else:
        lines += [
            f"%4 = graph.batch_matmul %1, %2 : ({tq}, {tk}) -> {w}",
            f"%5 = graph.divide %4, %c : ({w}, tensor<f32>) -> {w}",
            f"%6 = graph.add %5, %m : ({w}, {mask}) -> {w}",
        ]
    lines += [
        f"%7 = graph.softmax %6 : {w}",
        f"%8 = graph.batch_matmul %7, %3 : ({w}, {tv}) -> {o}",
        f"%9 = graph.transpose %8 {{axes = [0, 2, 1, 3]}} : ({o}) -> {out}",
        f"func.return %9 : {out}",
    ]
    arguments = f"%q: {q}, %k: {k}, %v: {v}, %m: {mask}"
    return f"func.func @main({arguments}) -> {out} {{\n" + "\n".join(lines) + "\n}"


def value(q, k, v, m, form):
    scores = np.einsum("bihd,bjhd->bhij", q.astype(np.float64), k)
    scores = {"plain": scores / 2.5 + m, "scaled": scores * 2.5 + m, "bare": scores}[form]
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhij,bjhe->bihe", p / p.sum(-1, keepdims=True), v)


def inputs(b, h, n, s, d, e):
    rng = np.random.default_rng(b + h + n + s + d + e)
    shapes = (b, n, h, d), (b, s, h, d), (b, s, h, e)
    q, k, v = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    m = np.where(rng.uniform(size=(b, 1, 1, s)) < 0.8, 0.0, -1e4).astype(np.float32)
    m[..., 0] = 0.0
    return q, k, v, m


@pytest.mark.parametrize(
    ("sizes", "form", "threads"),
    [
        ((1, 12, 128, 128, 32, 32), "plain", 1),
        ((1, 2, 128, 128, 32, 32), "scaled", 2),
        ((2, 3, 13, 17, 7, 5), "plain", 2),
        ((1, 1, 100, 61, 40, 24), "bare", 1),
        ((1, 2, 67, 300, 64, 48), "plain", 2),
        ((3, 1, 8, 5, 1, 1), "scaled", 1),
    ],
)
def test_one_kernel_with_the_right_values(tmp_path, sizes, form, threads):
    path = tmp_path / "attention.mlir"
    path.write_text(attention(*sizes, form=form))
    exe = compile_model(path, threads=threads, cache=False)
    arrays = inputs(*sizes)
    (found,) = exe(dict(zip([spec.name for spec in exe.inputs], arrays, strict=True))).values()
    expected = value(*arrays, form)
    assert np.abs(found - expected).max() <= 3e-6 * np.abs(expected).max()
    (node,) = exe.graph_json["nodes"]
    assert node["kernel"].count("batch_matmul") == 2
    assert "softmax" in node["kernel"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("n", "s", "d"), [(48, 48, 64), (17, 9, 8), (40, 700, 16), (100, 60, 32)])
def test_matrices_without_batch_axes(tmp_path, n, s, d, threads):
    """One head without an axis for heads: a block of queries is a task, one for each thread where there are enough."""
    q, k, kt, w = tensor(n, d), tensor(s, d), tensor(d, s), tensor(n, s)
    text = f"""
func.func @main(%q: {q}, %k: {k}, %v: {k}) -> {q} {{
  %0 = graph.transpose %k {{axes = [1, 0]}} : ({k}) -> {kt}
  %1 = graph.batch_matmul %q, %0 : ({q}, {kt}) -> {w}
  %2 = graph.softmax %1 : {w}
  %3 = graph.batch_matmul %2, %v : ({w}, {k}) -> {q}
  func.return %3 : {q}
}}"""
    rng = np.random.default_rng(n)
    a, b, c = (rng.standard_normal(shape, dtype=np.float32) for shape in ((n, d), (s, d), (s, d)))
    path = tmp_path / "attention.mlir"
    path.write_text(text)
    exe = compile_model(path, threads=threads, cache=False)
    (got,) = exe(dict(zip([spec.name for spec in exe.inputs], (a, b, c), strict=True))).values()
    scores = a.astype(np.float64) @ b.T
    p = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(got, p / p.sum(-1, keepdims=True) @ c, rtol=1e-4, atol=1e-5)
    assert len(exe.graph_json["nodes"]) == 1


def test_few_queries_stay_apart(tmp_path):
    path = tmp_path / "attention.mlir"
    path.write_text(attention(1, 4, 1, 64, 32, 32))
    exe = compile_model(path, threads=1, cache=False)
    arrays = inputs(1, 4, 1, 64, 32, 32)
    (found,) = exe(dict(zip([spec.name for spec in exe.inputs], arrays, strict=True))).values()
    assert np.abs(found - value(*arrays, "plain")).max() <= 3e-6
    assert len(exe.graph_json["nodes"]) > 1


def test_every_pass_keeps_the_values(tmp_path):
    path = tmp_path / "attention.mlir"
    path.write_text(attention(1, 2, 9, 11, 4, 4))
    exe = mlc.compile(path, threads=1, validate_each=True)
    arrays = inputs(1, 2, 9, 11, 4, 4)
    (found,) = exe(dict(zip([spec.name for spec in exe.inputs], arrays, strict=True))).values()
    assert np.abs(found - value(*arrays, "plain")).max() <= 3e-6


def test_scores_that_somebody_else_reads_stay_apart(tmp_path):
    text = attention(1, 2, 16, 16, 8, 8, "bare")
    w = tensor(1, 2, 16, 16)
    text = text.replace("func.return %9 : tensor<1x16x2x8xf32>", f"func.return %9, %7 : tensor<1x16x2x8xf32>, {w}")
    text = text.replace("-> tensor<1x16x2x8xf32> {", f"-> (tensor<1x16x2x8xf32>, {w}) {{")
    path = tmp_path / "attention.mlir"
    path.write_text(text)
    exe = compile_model(path, threads=1, cache=False)
    arrays = inputs(1, 2, 16, 16, 8, 8)
    found, weights = exe(dict(zip([spec.name for spec in exe.inputs], arrays, strict=True))).values()
    assert np.abs(found - value(*arrays, "bare")).max() <= 3e-6
    assert np.abs(weights.sum(-1) - 1).max() <= 1e-6
