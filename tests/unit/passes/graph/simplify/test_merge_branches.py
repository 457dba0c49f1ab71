"""graph-merge-branches: windows of one picture become one window with the same values, and run compiled."""

import numpy as np
import pytest
from graph_passes import names, optimize
from hypothesis import given, settings
from hypothesis import strategies as st

import mlc
from mlc.support.limits import limits

MERGE = "graph-merge-branches"


def t(*shape):
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


@st.composite
def branches(draw):
    """A sum of windows, factors and the picture itself, in any order; most of them fit into one another."""
    channels, size = draw(st.sampled_from([4, 6, 8])), draw(st.integers(5, 9))
    stride = draw(st.sampled_from([1, 1, 2]))
    dilation = draw(st.sampled_from([1, 1, 2]))
    inputs = outputs = channels
    picture = t(2, inputs, size, size)
    out = (size - 1) // stride + 1
    result = t(2, outputs, out, out)
    lines, terms = [], []
    for k in range(draw(st.integers(2, 4))):
        kind = draw(st.sampled_from(["conv"] * 4 + (["scale", "picture"] if stride == 1 else [])))
        if kind == "picture":
            terms.append("%x")
            continue
        if kind == "scale":
            shape = draw(st.sampled_from([(1, channels, 1, 1), (channels, 1, 1)]))
            lines += [
                f'%s{k} = graph.param "s{k}" : {t(*shape)}',
                f"%t{k} = graph.multiply %x, %s{k} : ({picture}, {t(*shape)}) -> {picture}",
            ]
        else:
            window = draw(st.sampled_from([(1, 1), (3, 3), (5, 5), (1, 3), (3, 1), (5, 3)]))
            groups = draw(st.sampled_from([g for g in (1, 1, 2, channels) if channels % g == 0]))
            pad = [n // 2 * dilation for n in window]
            kernel = t(outputs, inputs // groups, *window)
            lines += [
                f'%w{k} = graph.param "w{k}" : {kernel}',
                f"%t{k} = graph.conv2d %x, %w{k} {{strides = [{stride}, {stride}], padding = {pad + pad},"
                f" dilation = [{dilation}, {dilation}], groups = {groups}}} : ({picture}, {kernel}) -> {result}",
            ]
        terms.append(f"%t{k}")
        if draw(st.booleans()):
            lines += [
                f'%b{k} = graph.param "b{k}" : {t(channels)}',
                f"%u{k} = graph.bias_add %t{k}, %b{k} : {result}",
            ]
            terms[-1] = f"%u{k}"
    while len(terms) > 1:
        k = draw(st.integers(0, len(terms) - 2))
        lines.append(f"%a{len(terms)} = graph.add {terms[k]}, {terms[k + 1]} : {result}")
        terms[k : k + 2] = [f"%a{len(terms)}"]
    body = "\n".join(lines)
    return f"func.func @main(%x: {picture}) -> {result} {{\n{body}\nreturn {terms[0]} : {result}\n}}"


@settings(max_examples=150)
@given(branches())
def test_branches_keep_their_values(text):
    optimize(text, MERGE)


def test_the_weights_are_folded_whatever_their_size(monkeypatch):
    """No weight is padded or spread over groups: what folding may allocate would run out in a deep network."""
    monkeypatch.setattr(limits, "folded_bytes", 100)
    picture, lines = t(1, 8, 6, 6), []
    for name, window in (("v", 1), ("w", 3)):
        kernel = t(8, 8, window, window)
        lines += [
            f'%{name} = graph.param "{name}" : {kernel}',
            f"%c{name} = graph.conv2d %x, %{name} {{padding = {[window // 2] * 4}}}"
            f" : ({picture}, {kernel}) -> {picture}",
        ]
    lines += [
        f'%s = graph.param "s" : {t(8, 1, 1)}',
        f"%xs = graph.multiply %x, %s : ({picture}, {t(8, 1, 1)}) -> {picture}",
        f"%a = graph.add %cv, %cw : {picture}",
        f"%b = graph.add %a, %xs : {picture}",
        f"%y = graph.add %x, %b : {picture}",
    ]
    body = "\n".join(lines)
    text = f"func.func @main(%x: {picture}) -> {picture} {{\n{body}\nreturn %y : {picture}\n}}"
    assert names(optimize(text, MERGE, "graph-fold-constant")) == ["conv2d"]


def test_many_branches_are_one_convolution():
    """Weights of many sums are still known to be constant, and each of their ops is looked at once."""
    picture, kernel = t(1, 4, 6, 6), t(4, 4, 1, 1)
    lines = []
    for k in range(12):
        lines += [
            f'%w{k} = graph.param "w{k}" : {kernel}',
            f"%c{k} = graph.conv2d %x, %w{k} : ({picture}, {kernel}) -> {picture}",
            f"%s{k} = graph.add {f'%s{k - 1}' if k else '%x'}, %c{k} : {picture}",
        ]
    body = "\n".join(lines)
    text = f"func.func @main(%x: {picture}) -> {picture} {{\n{body}\nreturn %s11 : {picture}\n}}"
    assert names(optimize(text, MERGE, "graph-fold-constant")) == ["conv2d"]


def block(channels=16, groups=1, stride=1):
    """A block as RepVGG and MobileOne train it, before its norms are folded."""
    rng = np.random.default_rng(channels)
    weights = {
        "w": rng.normal(size=(channels, channels // groups, 3, 3)).astype("f4"),
        "v": rng.normal(size=(channels, channels // groups, 1, 1)).astype("f4"),
    }
    for k in range(3):
        for name in ("scale", "bias", "mean", "var"):
            values = rng.uniform(0.5, 1.5, channels)
            weights[f"{name}{k}"] = values.astype("f4")
    return weights


def onnx_block(channels, groups, stride):
    from onnx import helper, numpy_helper

    weights = block(channels, groups, stride)
    size = 12 // stride
    window = {"strides": [stride, stride], "group": groups}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c0"], pads=[1, 1, 1, 1], **window),
        helper.make_node("Conv", ["x", "v"], ["c1"], **window),
    ]
    branches = ["c0", "c1", *(["x"] if stride == 1 else [])]
    for k, value in enumerate(branches):
        norm = [f"{name}{k}" for name in ("scale", "bias", "mean", "var")]
        nodes.append(helper.make_node("BatchNormalization", [value, *norm], [f"n{k}"]))
    nodes.append(helper.make_node("Sum", [f"n{k}" for k in range(len(branches))], ["sum"]))
    nodes.append(helper.make_node("Relu", ["sum"], ["y"]))
    picture = helper.make_tensor_value_info("x", 1, [1, channels, 12, 12])
    result = helper.make_tensor_value_info("y", 1, [1, channels, size, size])
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "block", [picture], [result], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(("channels", "groups", "stride"), [(16, 1, 1), (24, 24, 1), (16, 4, 1), (16, 1, 2)])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_block_is_one_convolution(channels, groups, stride, threads):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = onnx_block(channels, groups, stride)
    x = np.random.default_rng(1).normal(size=(1, channels, 12, 12)).astype("f4")
    exe = mlc.compile(model, threads=threads, cache=False)
    kernels = [record.kernel for record in exe.profile({"x": x}).kernels]
    assert sum("conv2d" in name for name in kernels) == 1, kernels
    assert not any("multiply" in name for name in kernels), kernels
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    np.testing.assert_allclose(exe({"x": x})["y"], expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
