"""What exporters seldom write, and ONNX allows: names, functions, attributes and values at the edges, beside others."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_graphs import model_of, one_node
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph

import mlc
from mlc.frontends.onnx import import_model
from mlc.interp.graph import run_function
from mlc.support.errors import UserError

onnxruntime.set_default_logger_severity(4)
RNG = np.random.default_rng(3)
node = helper.make_node


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def i64(*values: int) -> Any:
    return np.array(values, np.int64)


def body(nodes: list[Any], output: str, **constants: Any) -> onnx.GraphProto:
    """A branch, which reads what stands round it."""
    initializers = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    return helper.make_graph(nodes, "body", [], [onnx.ValueInfoProto(name=output)], initializers)


def choice(then: Any, other: Any, nodes: list[Any], constants: Any = None) -> onnx.ModelProto:
    """An If, and nodes after it."""
    one = node("If", ["b"], ["m"], then_branch=then, else_branch=other)
    return model_of([*nodes[:-1], one, nodes[-1]], {"b": np.array(True), "x": X}, constants)


def overloads() -> onnx.ModelProto:
    """Two functions of one name."""
    functions, calls = [], []
    for kind in ("Neg", "Exp"):
        functions.append(helper.make_function("my", "F", ["a"], ["b"], [node(kind, ["a"], ["b"])], OPSETS))
        calls.append(node("F", ["x"], [kind], domain="my"))
        functions[-1].overload = calls[-1].overload = kind
    model = model_of([*calls, node("Sub", ["Neg", "Exp"], ["y"])], {"x": X})
    model.functions.extend(functions)
    model.opset_import.append(helper.make_opsetid("my", 1))
    return model


OPSETS = [helper.make_opsetid("", 21)]
X, WIDE = normal(3), normal(2, 5, 6)
GRID = {"x": normal(2, 2, 4, 5), "g": (RNG.random((2, 1, 1, 2)) * 2.8 - 1.4).astype(np.float32)}
CELL = {"w": normal(1, 12, 3), "r": normal(1, 12, 4)}
SLICE = {"s": i64(-9), "e": i64(np.iinfo(np.int64).min), "a": i64(1), "t": i64(-1)}
CASES: dict[str, tuple[onnx.ModelProto, dict[str, Any]]] = {
    "a body's name again": (
        choice(
            body([node("Neg", ["x"], ["v"])], "v"),
            body([node("Abs", ["x"], ["q"])], "q"),
            [node("Exp", ["x"], ["v"]), node("Add", ["m", "v"], ["y"])],
        ),
        {"b": np.array(True), "x": X},
    ),
    "a body's constant again": (
        choice(
            body([node("Mul", ["x", "w"], ["v"])], "v", w=X),
            body([node("Abs", ["x"], ["q"])], "q"),
            [node("Add", ["m", "w"], ["y"])],
            {"w": X},
        ),
        {"b": np.array(True), "x": X},
    ),
    "functions of one name": (overloads(), {"x": X}),
    "integers to the power of a float": (
        one_node("Pow", {"x": i64(1, 4, 9, 16)}, {"e": np.float32(0.5)}),
        {"x": i64(1, 4, 9, 16)},
    ),
    "a square of higher rank": (one_node("Pow", {"x": X}, {"e": np.float32([[2]])}), {"x": X}),
    "backwards from before the first": (one_node("Slice", {"x": WIDE}, SLICE), {"x": WIDE}),
    "negative pads": (one_node("Pad", {"x": WIDE}, {"p": i64(0, -1, 2, 0, 1, -2)}), {"x": WIDE}),
    "pads that leave nothing": (one_node("Pad", {"x": WIDE}, {"p": i64(0, -3, 0, 0, -2, 0)}), {"x": WIDE}),
    "nearest of one place": (one_node("GridSample", GRID, mode="nearest", padding_mode="border"), GRID),
    "cubic at the border": (one_node("GridSample", GRID, mode="cubic", padding_mode="border"), GRID),
    "no axes of a scalar": (
        one_node("ReduceL2", {"x": np.array(-3, np.float32)}, {"a": i64()}, keepdims=0),
        {"x": np.array(-3, np.float32)},
    ),
    "softsign": (
        one_node("GRU", {"x": normal(2, 1, 3)}, CELL, ("y",), hidden_size=4, activations=["HardSigmoid", "Softsign"]),
        {"x": normal(2, 1, 3)},
    ),
    "scaled": (
        one_node(
            "RNN",
            {"x": normal(2, 1, 3)},
            {"w": normal(1, 4, 3), "r": normal(1, 4, 4)},
            hidden_size=4,
            activations=["ScaledTanh"],
            activation_alpha=[0.5],
            activation_beta=[2.0],
        ),
        {"x": normal(2, 1, 3)},
    ),
}


def expected_of(proto: onnx.ModelProto, feeds: dict[str, Any]) -> Any:
    """What onnxruntime computes, or the reference evaluator where names are not to onnxruntime's liking."""
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    except InvalidGraph:
        return ReferenceEvaluator(proto).run(None, feeds)
    return session.run(None, feeds)


@pytest.mark.parametrize("name", CASES)
def test_beside_others(name: str):
    proto, feeds = CASES[name]
    model = import_model(proto)
    (result,) = run_function(model.main, list(feeds.values()), model.weights)
    (expected,) = expected_of(proto, feeds)
    assert result.dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(result, np.asarray(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("axes", [(1,), (0, -1), ()])
def test_a_logarithm_of_a_sum_does_not_overflow(opset: int, axes: tuple[int, ...]):
    rows = [[1000, 1001, -5], [-np.inf, -np.inf, -np.inf], [-2000, -2001, -2002], [0.5, np.inf, -np.inf]]
    arrays = [np.array(rows[:1] + rows[2:3], np.float32), np.array(rows, np.float64), np.zeros((2, 0), np.float32)]
    for x in (*arrays, np.array([[3, 4], [100, 1000]], np.int32)):
        given = {"constants": {"a": i64(*axes)}} if opset >= 18 else {}
        attributes: dict[str, Any] = {"axes": axes} if opset < 18 and axes else {}
        for keepdims in (0, 1):
            proto = one_node("ReduceLogSumExp", {"x": x}, **given, opset=opset, keepdims=keepdims, **attributes)
            (result,) = run_function((model := import_model(proto)).main, [x], model.weights)
            np.testing.assert_allclose(result, expected_of(proto, {"x": x})[0], rtol=1e-6)


@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize("scale", [(6,), (5, 1), (1, 1, 6), (2, 5, 6), (2, 1, 1), ()])
@pytest.mark.parametrize("bias", [None, (6,), (5, 6), (2, 1, 6)])
def test_a_scale_that_broadcasts(axis: int, scale: tuple[int, ...], bias: tuple[int, ...] | None):
    factors = {"s": normal(*scale), **({} if bias is None else {"b": normal(*bias)})}
    proto = one_node("LayerNormalization", {"x": WIDE}, factors, axis=axis)
    model = import_model(proto)
    (result,) = run_function(model.main, [WIDE], model.weights)
    np.testing.assert_allclose(result, expected_of(proto, {"x": WIDE})[0], rtol=1e-4, atol=1e-5)


def test_a_scale_that_does_not_broadcast():
    with pytest.raises(UserError, match=r"expected a scale and a bias that broadcast to \[2, 5, 6\], but got \[5\]"):
        import_model(one_node("LayerNormalization", {"x": WIDE}, {"s": normal(5)}))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("corners", [0, 1])
def test_affine_grids(batch: int, corners: int):
    theta = normal(batch, 2, 3)
    proto = one_node("AffineGrid", {"x": theta}, {"s": i64(batch, 2, 3, 4)}, align_corners=corners)
    (result,) = run_function((model := import_model(proto)).main, [theta], model.weights)
    np.testing.assert_allclose(result, expected_of(proto, {"x": theta})[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_without_extent(mode: str):
    regions = np.array([[2, 3, 2, 3], [0, 0, 9, 8], [5, 5, 2, 3], [1, 4, 6, 2]], np.float32)
    constants = {"r": regions, "b": i64(0, 0, 0, 0)}
    x = normal(1, 2, 5, 7)
    attributes = {"output_height": 2, "output_width": 3, "spatial_scale": 0.5, "mode": mode}
    proto = one_node("RoiAlign", {"x": x}, constants, opset=16, **attributes)
    (result,) = run_function((model := import_model(proto)).main, [x], model.weights)
    np.testing.assert_allclose(result, expected_of(proto, {"x": x})[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["_0", "_0_1", "%0", "/0", "-1"])
def test_a_name_of_numbers(name: str):
    nodes = [node("Relu", [name], ["t"]), node("Softmax", ["t"], ["u"]), node("Neg", ["u"], ["y"])]
    proto = model_of(nodes, {name: WIDE})
    dim = proto.graph.input[0].type.tensor_type.shape.dim[0]
    dim.dim_param = "_0"
    exe = mlc.compile(proto, threads=1)
    assert [spec.name for spec in exe.inputs] == [name]
    (expected,) = expected_of(proto, {name: WIDE})
    np.testing.assert_allclose(exe({name: WIDE})["y"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [1, 2])
def test_few_boxes(count: int):
    boxes, scores = (RNG.random((2, count, n)).astype(np.float32) for n in (4, 1))
    feeds = {"b": boxes, "s": scores.reshape(2, 1, count)}
    proto = one_node("NonMaxSuppression", feeds, {"m": i64(5), "t": np.float32(0.5)})
    (result,) = mlc.compile(proto, threads=1, cache=False)(feeds).values()
    np.testing.assert_array_equal(result, expected_of(proto, feeds)[0])


REFUSED = {
    "another constant by an outer name": (
        choice(
            body([node("Mul", ["x", "w"], ["v"])], "v", w=2 * X),
            body([node("Abs", ["x"], ["q"])], "q"),
            [node("Add", ["m", "w"], ["y"])],
            {"w": X},
        ),
        "expected a name of its own for initializer 'w' of a body",
    ),
    "a name twice in a body": (
        choice(
            body([node("Neg", ["x"], ["v"]), node("Exp", ["x"], ["v"])], "v"),
            body([node("Abs", ["x"], ["q"])], "q"),
            [node("Add", ["m", "x"], ["y"])],
        ),
        "expected a new name for output 0, but 'v' is defined already",
    ),
    "pads that crop too much": (
        one_node("Pad", {"x": WIDE}, {"p": i64(0, -6, 0, 0, 0, 0)}),
        "expected pads that crop at most the 5 elements of axis 1, but got -6, 0",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str):
    proto, message = REFUSED[name]
    with pytest.raises(UserError, match=message):
        import_model(proto)


def open_input(*shape: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)


def opened(nodes: list[Any], outputs: list[str], constants: dict[str, Any], *shape: Any) -> onnx.ModelProto:
    """A model of the input x, of which some sizes are open."""
    proto = model_of(nodes, {"x": normal(1)}, constants, outputs)
    proto.graph.input[0].CopyFrom(open_input(*shape))
    return proto


def test_open_sizes_in_ranges_remainders_repeats_and_reshapes():
    constants = {"zero": np.int64(0), "back": i64(-1), "one": i64(1), "reps": i64(1, 3, 1, 2), "two": i64(-1, 2)}
    nodes = [
        node("Shape", ["x"], ["n"], start=0, end=1),
        node("Shape", ["x"], ["t"], start=1, end=2),
        *(node("Squeeze", [name], [f"{name}0"]) for name in "nt"),
        node("Add", ["n0", "t0"], ["end"]),
        node("Mul", ["n0", "t0"], ["area"]),
        node("Range", ["n0", "end", "one0"], ["places"]),
        node("Range", ["zero", "area", "t0"], ["rows"]),
        node("Mod", ["back", "t"], ["shift"]),
        node("Slice", ["x", "shift", "big", "one"], ["last"]),
        node("Unsqueeze", ["x", "one"], ["x1"]),
        node("Tile", ["x1", "reps"], ["wide"]),
        node("Slice", ["x", "one", "big", "one"], ["rest"]),
        node("Shape", ["rest"], ["s"], start=0, end=2),
        node("Concat", ["s", "two"], ["s2"], axis=0),
        node("Reshape", ["rest", "s2"], ["apart"]),
    ]
    outputs = ["places", "rows", "last", "wide", "apart"]
    proto = opened(nodes, outputs, constants | {"one0": np.int64(1), "big": i64(1 << 40)}, "N", "T", 4)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    exe = mlc.compile(proto, threads=1, cache=False)
    for x in (normal(2, 5, 4), normal(3, 7, 4)):
        for a, b in zip(exe({"x": x}).values(), session.run(None, {"x": x}), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_size_that_an_exporter_wrote_as_a_number(capfd):
    """The other way to make the shapes agree, N in steps of 5, is not what was meant."""
    proto = opened([node("Reshape", ["x", "s"], ["y"], name="op")], ["y"], {"s": i64(5, -1, 8)}, "T", "N", 2, 4)
    exe = mlc.compile(proto, threads=1, cache=False)
    assert "the size T is fixed at 5; for others, op (Reshape)" in capfd.readouterr().err
    assert exe.inputs[0].shape == (5, "N", 2, 4)


def test_remainders_that_depend_on_sizes_are_refused():
    nodes = [node("Shape", ["x"], ["n"]), node("Mod", ["seven", "n"], ["m"]), node("Expand", ["one", "m"], ["y"])]
    proto = opened(nodes, ["y"], {"seven": i64(7), "one": normal(1)}, "N")
    with pytest.raises(UserError, match=r"expected a remainder that is the same for all sizes, but got 7 % \(N\)"):
        import_model(proto)


def unordered() -> onnx.ModelProto:
    """Nodes, bodies and functions in which what is read comes last, as onnxruntime's converters to f16 leave them."""
    branches = [
        body([node("Mul", ["m", "late"], ["t"]), node("Abs", ["x"], ["m"])], "t"),
        body([node("Neg", ["x"], ["e"])], "e"),
    ]
    function = helper.make_function(
        "my", "F", ["a"], ["b"], [node("Exp", ["c"], ["b"]), node("Neg", ["a"], ["c"])], OPSETS
    )
    nodes = [
        node("Add", ["i", "f"], ["y"]),
        node("If", ["b"], ["i"], then_branch=branches[0], else_branch=branches[1]),
        node("F", ["late"], ["f"], domain="my"),
        node("Sqrt", ["x2"], ["late"]),
        node("Mul", ["x", "x"], ["x2"]),
    ]
    model = model_of(nodes, {"b": np.array(True), "x": X})
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("my", 1))
    return model


def test_nodes_in_another_order():
    exe = mlc.compile(unordered(), threads=1, cache=False)
    for choice in (True, False):
        (found,) = exe({"b": np.array(choice), "x": X}).values()
        expected = (np.abs(X) * np.abs(X) if choice else -X) + np.exp(-np.abs(X))
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_default_value_of_an_input():
    """An initializer that is an input as well is a constant, but where `shapes` says that it is an input."""
    proto = one_node("Add", {"x": X}, {"w": X})
    proto.graph.input.append(helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [3]))
    np.testing.assert_array_equal(mlc.compile(proto, threads=1)({"x": X})["y"], X + X)
    given = mlc.compile(proto, threads=1, shapes={"w": (3,)})({"x": X, "w": -X})
    np.testing.assert_array_equal(given["y"], np.zeros(3, np.float32))


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (onnx.ValueInfoProto(name="r"), "expected the type of 'r', which a body gives that never runs, but got none"),
        (helper.make_tensor_value_info("r", onnx.TensorProto.STRING, [3]), "output 'r': expected elements of float32"),
    ],
)
def test_a_body_that_never_runs_says_what_it_gives(declared: onnx.ValueInfoProto, message: str):
    inputs = [
        helper.make_tensor_value_info("i", onnx.TensorProto.INT64, []),
        helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
    ]
    nodes = [node("Identity", ["c"], ["c2"]), node("Neg", ["x"], ["r"])]
    rows = helper.make_graph(nodes, "body", inputs, [onnx.ValueInfoProto(name="c2"), declared])
    proto = model_of([node("Loop", ["m", "no"], ["y"], body=rows)], {"x": X}, {"m": np.int64(3), "no": np.array(False)})
    with pytest.raises(UserError, match=message):
        import_model(proto)
    proto.graph.node[0].input[1] = ""
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.int64(0), "m"))
    (found,) = mlc.compile(proto, threads=1)({"x": X}).values()
    assert found.shape == (0, 3)


def masked_write(source: str) -> onnx.ModelProto:
    """`x[x < 0] = source`, as PyTorch writes it: as many updates as conditions hold."""
    nodes = [
        node("Less", ["x", "zero"], ["hit"]),
        node("NonZero", ["hit"], ["where"]),
        node("Transpose", ["where"], ["places"]),
        node("Reshape", ["hit", "back"], ["flat"]),
        node("Cast", ["flat"], ["ones"], to=onnx.TensorProto.INT64),
        node("ReduceSum", ["ones"], ["n"], keepdims=1),
        node("Expand", ["value", "n"], ["updates"]),
        node("ScatterND", [source, "places", "updates"], ["y"]),
    ]
    constants = {"zero": np.float32(0), "back": i64(-1), "value": np.float32(-7)}
    return model_of(nodes, {"x": normal(4, 5)}, constants)


@pytest.mark.parametrize("shift", [-9, 0, 9])
def test_writing_where_a_condition_holds(shift: int):
    proto, x = masked_write("x"), normal(4, 5) + np.float32(shift)
    proto.graph.output.add(name="updates")
    found, updates = mlc.compile(proto, threads=1)({"x": x}).values()
    np.testing.assert_array_equal(found, np.where(x < 0, np.float32(-7), x))
    np.testing.assert_array_equal(updates, np.full((x < 0).sum(), -7, np.float32))


def test_writing_into_what_the_data_sizes_is_refused():
    with pytest.raises(UserError, match="expected the data to say how many places there are, and as many updates"):
        import_model(masked_write("updates"))
