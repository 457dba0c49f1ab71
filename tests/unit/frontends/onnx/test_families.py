"""Families of ONNX ops beside onnxruntime, at sizes that the backend tests do not have; and what they refuse."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx_graphs import LARGEST_BYTE, graph_of, model_of, one_node

import mlc
from mlc.frontends.onnx import import_model
from mlc.interp.graph import run_function
from mlc.support.errors import UnsupportedOps, UserError

onnxruntime.set_default_logger_severity(4)
RNG = np.random.default_rng(7)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def integers(low: int, high: int, *shape: int, dtype: Any = np.uint8) -> Any:
    return RNG.integers(low, high, shape).astype(dtype)


def f32(*values: float) -> Any:
    return np.array(values if len(values) > 1 else values[0], np.float32)


def ours(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    """What the graph that is imported means, in the reference interpreter."""
    model = import_model(proto)
    return run_function(model.main, list(feeds.values()), model.weights)


def theirs(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


X8 = {"x": integers(0, 256, 1, 4, 9, 7)}
W8 = integers(-LARGEST_BYTE, LARGEST_BYTE + 1, 6, 2, 3, 3, dtype=np.int8)
QUANTISED: dict[str, tuple[onnx.ModelProto, dict[str, Any]]] = {
    "qlinearconv": (
        one_node(
            "QLinearConv",
            X8,
            {
                "xs": f32(0.02),
                "xz": np.uint8(121),
                "w": W8,
                "ws": RNG.uniform(0.01, 0.1, 6).astype(np.float32),
                "wz": np.zeros(6, np.int8),
                "ys": f32(0.3),
                "yz": np.uint8(110),
                "b": integers(-99, 99, 6, dtype=np.int32),
            },
            group=2,
            strides=[2, 1],
            pads=[1, 0, 1, 2],
            dilations=[1, 2],
        ),
        X8,
    ),
    "convinteger": (
        one_node("ConvInteger", X8, {"w": W8.view(np.uint8), "z": np.uint8(3), "v": np.uint8(128)}, group=2),
        X8,
    ),
    "qlinearmatmul": (
        one_node(
            "QLinearMatMul",
            {"a": integers(0, 256, 3, 17, 40)},
            {
                "as": f32(0.02),
                "az": np.uint8(120),
                "b": integers(-LARGEST_BYTE, LARGEST_BYTE + 1, 40, 19, dtype=np.int8),
                "bs": f32(0.05),
                "bz": np.int8(-3),
                "ys": f32(1.1),
                "yz": np.uint8(130),
            },
        ),
        {"a": integers(0, 256, 3, 17, 40)},
    ),
    "matmulinteger": (
        one_node(
            "MatMulInteger",
            {"a": integers(0, 256, 5, 33)},
            {"b": integers(0, 256, 33, 7), "az": np.uint8(7), "bz": np.uint8(9)},
        ),
        {"a": integers(0, 256, 5, 33)},
    ),
    "quantize-axis": (
        one_node(
            "QuantizeLinear",
            {"x": normal(3, 4, 5)},
            {"s": f32(0.1, 0.02, 0.3, 0.01), "z": np.array([0, 3, 128, 255], np.uint8)},
        ),
        {"x": normal(3, 4, 5)},
    ),
    "dequantize-blocks": (
        one_node(
            "DequantizeLinear",
            {"x": integers(0, 256, 6, 5)},
            {"s": normal(2, 5), "z": integers(0, 256, 2, 5)},
            axis=0,
            block_size=3,
        ),
        {"x": integers(0, 256, 6, 5)},
    ),
    "dynamic": (one_node("DynamicQuantizeLinear", {"x": normal(4, 9)}, outputs=("y", "s", "z")), {"x": normal(4, 9)}),
}


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_ops_are_exact(name: str):
    proto, feeds = QUANTISED[name]
    for a, b in zip(ours(proto, feeds), theirs(proto, feeds), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-6 if a.dtype.kind == "f" else 0, atol=0)


@pytest.mark.parametrize("name", ["qlinearconv", "qlinearmatmul"])
def test_compiled_quantised_ops_are_exact(name: str):
    proto, feeds = QUANTISED[name]
    (result,) = mlc.compile(import_model(proto), threads=1, cache=False)(feeds).values()
    np.testing.assert_array_equal(result, theirs(proto, feeds)[0])


def recurrent(kind: str, gates: int, directions: int, optional: dict[str, Any] | None = None, **attrs: Any):
    size, hidden = 5, 4
    constants = {
        "w": normal(directions, gates * hidden, size),
        "r": normal(directions, gates * hidden, hidden),
        "b": normal(directions, 2 * gates * hidden),
        **(optional or {}),
    }
    names = ["x", "w", "r", "b", *(n if n in constants else "" for n in ("l", "h", "c", "p"))]
    while not names[-1]:
        names.pop()
    outputs = ("y", "yh", "yc") if kind == "LSTM" else ("y", "yh")
    return one_node(kind, {"x": normal(6, 3, size)}, constants, outputs, names=names, hidden_size=hidden, **attrs)


LENGTHS = {"l": np.array([6, 2, 4], np.int32)}
RECURRENT = {
    "rnn": recurrent("RNN", 1, 1, activations=["Relu"]),
    "rnn-reverse": recurrent("RNN", 1, 1, LENGTHS, direction="reverse"),
    "gru": recurrent("GRU", 3, 2, {"h": normal(2, 3, 4)}, direction="bidirectional"),
    "gru-linear": recurrent("GRU", 3, 1, LENGTHS, linear_before_reset=1),
    "lstm": recurrent(
        "LSTM",
        4,
        2,
        {**LENGTHS, "h": normal(2, 3, 4), "c": normal(2, 3, 4), "p": normal(2, 12)},
        direction="bidirectional",
    ),
    "lstm-clip": recurrent("LSTM", 4, 1, clip=0.4, activations=["HardSigmoid", "Tanh", "Relu"], activation_alpha=[0.3]),
}


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name: str):
    feeds = {"x": normal(6, 3, 5)}
    for a, b in zip(ours(RECURRENT[name], feeds), theirs(RECURRENT[name], feeds), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


EINSUMS = {
    "bij,bjk->bik": [(2, 3, 4), (2, 4, 5)],
    "ij,jk": [(3, 4), (4, 5)],
    "bhqd,bhkd->bhqk": [(2, 2, 3, 4), (2, 2, 5, 4)],
    "...ij,jk->...ik": [(2, 3, 4, 5), (5, 6)],
    "ii->i": [(4, 4)],
    "iij->j": [(3, 3, 2)],
    "i,j,k->kji": [(2,), (3,), (4,)],
    "ij,kj->": [(3, 4), (5, 4)],
    "a...,a...->...": [(3, 2, 1), (3, 1, 4)],
}


@pytest.mark.parametrize("equation", EINSUMS)
def test_einsum(equation: str):
    feeds = {f"x{k}": normal(*shape) for k, shape in enumerate(EINSUMS[equation])}
    (result,) = ours(one_node("Einsum", feeds, equation=equation), feeds)
    np.testing.assert_allclose(result, np.einsum(equation, *feeds.values()), rtol=1e-4, atol=1e-5)


P3 = {"x": normal(2, 3, 7, 8, 9)}
POOLS = {
    "max-3": one_node("MaxPool", P3, kernel_shape=[3, 2, 3], strides=[2, 2, 1], pads=[1, 0, 1, 0, 1, 1]),
    "average-3": one_node(
        "AveragePool", P3, kernel_shape=[3, 3, 2], strides=[2, 1, 2], pads=[1, 1, 0, 1, 1, 1], ceil_mode=1
    ),
    "average-3-include": one_node(
        "AveragePool", P3, kernel_shape=[3, 3, 2], pads=[1, 1, 0, 1, 1, 1], count_include_pad=1
    ),
    "conv-3": one_node(
        "Conv",
        {"x": normal(2, 4, 7, 8, 9)},
        {"w": normal(6, 2, 3, 2, 3), "b": normal(6)},
        group=2,
        strides=[2, 1, 2],
        pads=[1, 0, 1, 2, 1, 1],
        dilations=[2, 1, 1],
    ),
    "lp": one_node("LpPool", {"x": normal(2, 3, 8, 9)}, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], p=3),
    "places": one_node(
        "MaxPool", {"x": normal(2, 3, 8, 9)}, outputs=("y", "i"), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 1]
    ),
    "places-columns": one_node(
        "MaxPool", {"x": normal(2, 3, 8, 9)}, outputs=("y", "i"), kernel_shape=[2, 3], storage_order=1
    ),
}


@pytest.mark.parametrize("name", POOLS)
def test_windows_of_any_rank(name: str):
    proto = POOLS[name]
    feeds = {"x": normal(*(d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim))}
    for a, b in zip(ours(proto, feeds), theirs(proto, feeds), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


ORDER = {"x": RNG.integers(0, 9, (4, 17)).astype(np.float32)}
MOVED: dict[str, tuple[onnx.ModelProto, dict[str, Any]]] = {
    "topk": (one_node("TopK", ORDER, {"k": np.array([5])}, outputs=("y", "i")), ORDER),
    "topk-smallest": (one_node("TopK", ORDER, {"k": np.array([3])}, outputs=("y", "i"), axis=0, largest=0), ORDER),
    "cumsum": (one_node("CumSum", ORDER, {"a": np.array(1)}, reverse=1, exclusive=1), ORDER),
    "scatter": (
        one_node(
            "ScatterElements",
            {"x": normal(4, 7)},
            {"i": RNG.integers(-7, 7, (3, 9)), "u": normal(3, 9)},
            axis=1,
            reduction="add",
        ),
        {"x": normal(4, 7)},
    ),
    "scatternd": (
        one_node("ScatterND", {"x": normal(4, 5, 6)}, {"i": np.array([[[0, 1]], [[3, -1]]]), "u": normal(2, 1, 6)}),
        {"x": normal(4, 5, 6)},
    ),
    "scatter-twice": (
        one_node(
            "ScatterElements", {"x": normal(4, 7)}, {"i": np.array([[1, -6, 1], [0, 0, 2]]), "u": normal(2, 3)}, axis=1
        ),
        {"x": normal(4, 7)},
    ),
    "scatternd-computed": (
        one_node("ScatterND", {"x": normal(4, 5), "i": np.array([[1], [3]]), "u": normal(2, 5)}),
        {"x": normal(4, 5), "i": np.array([[1], [3]]), "u": normal(2, 5)},
    ),
    "gathernd": (
        one_node("GatherND", {"x": normal(3, 4, 5, 6)}, {"i": RNG.integers(-4, 4, (3, 7, 2))}, batch_dims=1),
        {"x": normal(3, 4, 5, 6)},
    ),
    "trilu": (one_node("Trilu", ORDER, {"k": np.array(-2)}, upper=0), ORDER),
    "onehot": (
        one_node("OneHot", {"x": np.array([[0, 5], [-1, 9]])}, {"d": np.array(6), "v": f32(2, 3)}, axis=1),
        {"x": np.array([[0, 5], [-1, 9]])},
    ),
    "grid": (
        one_node(
            "GridSample",
            {"x": normal(2, 3, 5, 6), "g": RNG.uniform(-1.4, 1.4, (2, 4, 3, 2)).astype(np.float32)},
            mode="cubic",
            padding_mode="reflection",
        ),
        {"x": normal(2, 3, 5, 6), "g": RNG.uniform(-1.4, 1.4, (2, 4, 3, 2)).astype(np.float32)},
    ),
}


@pytest.mark.parametrize("name", MOVED)
def test_computed_places(name: str):
    proto, feeds = MOVED[name]
    for a, b in zip(ours(proto, feeds), theirs(proto, feeds), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("border", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("sizes", [(1, 3, 9, 7), (2, 2, 5, 1), (2, 12, 6, 5), (1, 2, 3, 4, 3)])
def test_linear_samples_at_the_ends_of_a_picture(sizes: tuple[int, ...], border: str, corners: int):
    """Coordinates between the last elements and the padding, at both, and far outside; few channels are padded."""
    axes = len(sizes) - 2
    ends = [side * (1 + k / n) for n in sizes[2:] for side in (-1, 1) for k in (-2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 40)]
    grid = RNG.choice(ends, (sizes[0], *(11, 9, 5)[:axes], axes)).astype(np.float32)
    feeds = {"x": normal(*sizes), "g": grid}
    proto = one_node("GridSample", feeds, opset=20, mode="linear", padding_mode=border, align_corners=corners)
    (wanted,) = theirs(proto, feeds)
    (compiled,) = mlc.compile(proto, threads=1)(feeds).values()
    np.testing.assert_allclose(compiled, wanted, rtol=1e-4, atol=1e-4)
    assert ("graph.pad" in str(mlc.load(proto).module)) == (sizes[1] < 8)


def test_infinite_pixels_stay_infinite():
    feeds = {
        "x": np.full((1, 1, 4, 4), np.inf, np.float32),
        "g": RNG.uniform(-0.6, 0.6, (1, 5, 5, 2)).astype(np.float32),
    }
    (compiled,) = mlc.compile(one_node("GridSample", feeds, opset=20, mode="linear"), threads=1)(feeds).values()
    assert np.isposinf(compiled).all()


@pytest.mark.parametrize("border", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("sizes", [(1, 8, 5, 6), (3, 19, 4, 7), (2, 8, 3, 4, 5), (2, 32, 40, 40)])
def test_pictures_of_many_channels_are_sampled_as_rows(sizes: tuple[int, ...], mode: str, border: str):
    """But the last, of which few elements are read: it stays as it is."""
    if len(sizes) == 5 and mode == "cubic":
        pytest.skip("onnxruntime has no cubic samples of volumes")
    outs = (4, 3) if sizes[-1] == 40 else (6, 9, 4)[: len(sizes) - 2]
    grid = RNG.uniform(-1.4, 1.4, (sizes[0], *outs, len(sizes) - 2)).astype(np.float32)
    feeds = {"x": normal(*sizes), "g": grid}
    proto = one_node("GridSample", feeds, opset=20, mode=mode, padding_mode=border)
    module = mlc.load(proto).module
    takes = any(op.name == "graph.take" for op in module.walk())
    assert takes == (sizes[-1] != 40)
    (wanted,) = theirs(proto, feeds)
    np.testing.assert_allclose(ours(proto, feeds)[0], wanted, rtol=1e-4, atol=1e-4)
    if border == "zeros":
        (compiled,) = mlc.compile(proto, threads=1)(feeds).values()
        np.testing.assert_allclose(compiled, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_determinants(size: int):
    feeds = {"x": normal(4, size, size)}
    feeds["x"][1] = 1  # singular
    (result,) = ours(one_node("Det", feeds), feeds)
    np.testing.assert_allclose(result, np.linalg.det(feeds["x"]), rtol=1e-3, atol=1e-5)


def test_values_of_narrow_floats_are_summed_in_f32():
    feeds = {"a": normal(4, 300).astype(np.float16), "b": normal(300, 5).astype(np.float16)}
    (result,) = mlc.compile(import_model(one_node("MatMul", feeds)), threads=1, cache=False)(feeds).values()
    assert result.dtype == np.float16
    wanted = feeds["a"].astype(np.float64) @ feeds["b"].astype(np.float64)
    np.testing.assert_allclose(result.astype(np.float64), wanted, rtol=2**-10, atol=2**-12)


def subgraph(nodes: list[Any], inputs: dict[str, Any], outputs: tuple[str, ...]) -> onnx.GraphProto:
    return graph_of(nodes, inputs, outputs=outputs)


STEP = subgraph(
    [
        helper.make_node("Add", ["s", "x"], ["t"]),  # x is of the graph outside
        helper.make_node("Identity", ["c"], ["d"]),
        helper.make_node("Identity", ["t"], ["o"]),
    ],
    {"i": np.array(0), "c": np.array(True), "s": f32(0, 0)},
    ("d", "t", "o"),
)


def looped(count: Any) -> onnx.ModelProto:
    return one_node(
        "Loop",
        {"x": f32(0, 0)},
        {"m": np.array(count), "c": np.array(True), "s": f32(1, 2)},
        ("y", "z"),
        names=["m", "c", "s"],
        body=STEP,
    )


def test_a_loop_of_a_known_length_is_written_out():
    feeds = {"x": f32(2, 3)}
    total, rows = ours(looped(4), feeds)
    np.testing.assert_array_equal(total, [9, 14])
    np.testing.assert_array_equal(rows, [[3, 5], [5, 8], [7, 11], [9, 14]])


def test_an_if_of_a_computed_condition_selects():
    branches = {
        name: subgraph([helper.make_node(kind, ["x"], ["r"])], {}, ("r",))
        for name, kind in (("then_branch", "Exp"), ("else_branch", "Neg"))
    }
    model = one_node("If", {"c": np.array(True), "x": f32(1, 2)}, names=["c"], **branches)
    for condition, wanted in ((True, np.exp([1, 2])), (False, [-1, -2])):
        (result,) = ours(model, {"c": np.array(condition), "x": f32(1, 2)})
        np.testing.assert_allclose(result, wanted, rtol=1e-6)


def test_functions_of_the_model_are_inlined():
    twice = helper.make_function(
        "own",
        "Twice",
        ["a"],
        ["b"],
        [
            helper.make_node("Constant", [], ["k"], value_float=2.0),
            helper.make_node("Mul", ["a", "k"], ["m"]),
            helper.make_node("LeakyRelu", ["m"], ["b"]),
        ],
        [helper.make_opsetid("", 21)],
        ["alpha"],
    )
    attribute = twice.node[2].attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT)
    attribute.ref_attr_name = "alpha"
    model = model_of([helper.make_node("Twice", ["x"], ["y"], domain="own", alpha=0.5)], {"x": f32(1, -1)})
    model.functions.append(twice)
    model.opset_import.append(helper.make_opsetid("own", 1))
    np.testing.assert_array_equal(ours(model, {"x": f32(3, -4)})[0], [6, -4])


REFUSED: dict[str, tuple[onnx.ModelProto, str]] = {
    "shift": (one_node("BitShift", {"x": np.array([1], np.uint8)}, names=["x", "x"], direction="UP"), "LEFT or RIGHT"),
    "topk": (one_node("TopK", ORDER, {"k": np.array([18])}, outputs=("y", "i")), r"expected k in 0\.\.17, but got 18"),
    "einsum": (one_node("Einsum", {"x": normal(3, 4)}, equation="ijk->i"), "expected as many labels as axes"),
    "einsum-terms": (one_node("Einsum", {"x": normal(3, 4)}, equation="ij,jk->i"), "expected an equation of 1 terms"),
    "einsum-sizes": (one_node("Einsum", {"x": normal(3, 4)}, equation="ii->i"), "expected one size of 'i'"),
    "einsum-result": (one_node("Einsum", {"x": normal(3, 4)}, equation="ij->k"), "expected a result of labels"),
    "activation": (recurrent("RNN", 1, 1, activations=["Mish"]), "expected activations of Relu, Tanh"),
    "direction": (recurrent("GRU", 3, 1, direction="bidirectional"), "expected weights for the direction bidir"),
    "condition": (
        one_node(
            "Loop", {"x": f32(0, 0), "c": np.array(True)}, {"s": f32(1, 2)}, ("y", "z"), names=["", "c", "s"], body=STEP
        ),
        "expected the condition to be constant",
    ),
    "col2im": (
        one_node("Col2Im", {"x": normal(1, 5, 4)}, {"i": np.array([3, 3]), "k": np.array([2, 2])}),
        "expected an input of N x",
    ),
    "dft": (one_node("DFT", {"x": normal(2, 8, 3)}, {"a": np.array(1)}, names=["x", "", "a"]), "last axis of 1 or 2"),
    "stft": (one_node("STFT", {"x": normal(1, 8, 1)}, {"s": np.array(2), "w": normal(9)}), "expected frames no longer"),
    "grid": (
        one_node("GridSample", {"x": normal(1, 1, 3, 3), "g": normal(1, 2, 2, 2)}, mode="sinc"),
        "expected mode linear",
    ),
    "window": (one_node("MaxPool", {"x": normal(1, 1, 5, 5)}, kernel_shape=[2]), "expected a kernel of 2 sizes"),
    "gathernd": (
        one_node("GatherND", {"x": normal(2, 3)}, {"i": np.zeros((1, 3), np.int64)}),
        "expected indices of 1 to 2",
    ),
    "ngrams": (
        one_node(
            "TfIdfVectorizer",
            {"x": np.array([1, 2])},
            pool_strings=["a"],
            ngram_counts=[0],
            ngram_indexes=[0],
            mode="TF",
            min_gram_length=1,
            max_gram_length=1,
            max_skip_count=0,
        ),
        "expected a pool of integers",
    ),
    "sequence": (one_node("SequenceAt", {"x": normal(2)}, {"p": np.array(0)}), "to be a sequence, but got a tensor"),
    "position": (
        model_of(
            [helper.make_node("SequenceConstruct", ["x"], ["s"]), helper.make_node("SequenceAt", ["s", "p"], ["y"])],
            {"x": normal(2)},
            {"p": np.array(1)},
        ),
        r"expected a position in \[-1, 0\], but got 1",
    ),
    "sequence-operand": (
        model_of(
            [helper.make_node("SequenceConstruct", ["x"], ["s"]), helper.make_node("Exp", ["s"], ["y"])],
            {"x": normal(2)},
        ),
        "expected a tensor, but 'SequenceConstruct_0' is a sequence",
    ),
    "training": (
        one_node("Dropout", {"x": normal(2)}, {"r": f32(0.5), "t": np.array(True)}),
        "expected a seed and a known shape, from which the mask follows",
    ),
    "quantised": (
        one_node("QuantizeLinear", {"x": normal(2)}, {"s": f32(1)}, output_dtype=TensorProto.INT64),
        "expected a quantised type",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str):
    proto, message = REFUSED[name]
    with pytest.raises(UserError, match=message):
        import_model(proto)


def test_resampled_regions():
    feeds = {"x": normal(2, 3, 10, 12), "r": f32(1, 1, 9, 7, 0, 2, 5, 9).reshape(2, 4), "b": np.array([1, 0])}
    model = one_node("RoiAlign", feeds, output_height=3, output_width=2, sampling_ratio=2, spatial_scale=0.9)
    np.testing.assert_allclose(
        ours(model, feeds)[0], ReferenceEvaluator(model).run(None, feeds)[0], rtol=1e-4, atol=1e-5
    )


def calling(name: str, *callees: str) -> onnx.FunctionProto:
    """A function that calls others, each on the result of the one before."""
    names = [f"v{k}" for k in range(len(callees) + 1)]
    nodes = [helper.make_node(c, [a], [b], domain="own") for c, a, b in zip(callees, names, names[1:], strict=False)]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, names[:1], names[-1:], nodes, opsets)


def with_functions(*functions: onnx.FunctionProto) -> onnx.ModelProto:
    model = model_of([helper.make_node(functions[0].name, ["x"], ["y"], domain="own")], {"x": f32(1, 2)})
    model.functions.extend(functions)
    model.opset_import.append(helper.make_opsetid("own", 1))
    return model


def test_a_function_that_calls_itself_is_refused():
    with pytest.raises(UserError, match="expected functions nested at most 32 deep"):
        import_model(with_functions(calling("F", "F")))


def test_functions_that_grow_without_end_are_refused(monkeypatch):
    monkeypatch.setattr("mlc.support.limits.limits.ops", 500)
    grown = [calling(f"F{k}", f"F{k + 1}", f"F{k + 1}") for k in range(20)]
    with pytest.raises(UserError, match="expected at most 500 nodes, functions written out"):
        import_model(with_functions(*grown, calling("F20")))


def test_names_in_bodies_are_checked():
    function = calling("F", "Relu")
    function.node[0].domain = ""
    data = with_functions(function).SerializeToString().replace(b"Relu", b"R\xffu\xfe")
    with pytest.raises(UserError):
        import_model(onnx.ModelProto.FromString(data))


def test_unsupported_ops_in_bodies_are_listed_with_the_others():
    function = calling("F", "Nothing", "F", "Unknown")
    model = with_functions(function)
    branch = subgraph([helper.make_node("Missing", ["x"], ["r"], name="inner")], {}, ("r",))
    model.graph.node.append(helper.make_node("If", ["c"], ["z"], name="choice", then_branch=branch, else_branch=branch))
    with pytest.raises(UnsupportedOps) as caught:
        import_model(model)
    assert [(path, kind) for path, kind, _ in caught.value.ops] == [
        ("F_0/Nothing_0", "own.Nothing"),
        ("F_0/Unknown_2", "own.Unknown"),
        ("choice/inner", "Missing"),
        ("choice/inner", "Missing"),
    ]
