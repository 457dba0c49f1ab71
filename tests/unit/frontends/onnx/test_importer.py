"""The ONNX frontend: converters against onnxruntime, folding, and every way a file can be wrong."""

import os
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlc
from mlc.dialects.graph import ConstantOp, FullOp, ParamOp, ReshapeOp, location_name
from mlc.interp.graph import run_function
from mlc.support.errors import UnsupportedOps, UserError

onnxruntime.set_default_logger_severity(4)
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def model_of(nodes, inputs, outputs, constants=None, opset=17, types: Any = None) -> onnx.ModelProto:
    """A model; inputs map names to shapes, outputs are names."""
    types = types or {}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, types.get(n, FLOAT), s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, types.get(n, FLOAT), None) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def node(kind, inputs, outputs="y", **attrs):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attrs)


X34 = {"x": (3, 4)}
X = {"x": (1, 4, 6, 8)}
W = np.random.default_rng(5).standard_normal((6, 2, 3, 3)).astype(np.float32)
V4 = np.random.default_rng(6).uniform(0.5, 1.5, 4).astype(np.float32)
S64 = np.int64
CASES = {
    "conv": (
        [node("Conv", "x w b", group=2, pads=[1, 0, 2, 1], strides=[2, 1])],
        X,
        {"w": W, "b": V4[[0, 1, 2, 3, 0, 1]]},
        17,
    ),
    "conv-same": ([node("Conv", "x w", group=2, auto_pad="SAME_LOWER", strides=[2, 2])], X, {"w": W}, 17),
    "conv-1d": ([node("Conv", "x w", pads=[1, 2], dilations=[2])], {"x": (2, 2, 9)}, {"w": W[:, :, 0]}, 17),
    "max-pool-ceil": ([node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)], X, {}, 17),
    "average-pool": (
        [node("AveragePool", "x", kernel_shape=[3, 2], pads=[1, 0, 1, 1], count_include_pad=1)],
        X,
        {},
        17,
    ),
    "average-pool-1d": ([node("AveragePool", "x", kernel_shape=[3], pads=[1, 1])], {"x": (1, 2, 9)}, {}, 17),
    "global-max": ([node("GlobalMaxPool", "x")], X, {}, 17),
    "batch-norm": ([node("BatchNormalization", "x v v v v", epsilon=0.01)], X, {"v": V4}, 17),
    "instance-norm": ([node("InstanceNormalization", "x v v")], X, {"v": V4}, 17),
    "layer-norm": ([node("LayerNormalization", "x v")], X34, {"v": V4}, 17),
    "lrn": ([node("LRN", "x", size=3, alpha=0.5, beta=0.7, bias=2.0)], X, {}, 17),
    "lrn-wide": ([node("LRN", "x", size=7)], X, {}, 17),
    "gemm": (
        [node("Gemm", "x w c", transA=1, alpha=0.5, beta=2.0)],
        X34,
        {"w": W.reshape(-1)[:15].reshape(3, 5), "c": V4[:1]},
        17,
    ),
    "matmul-vector": ([node("MatMul", "x w")], X34, {"w": V4}, 17),
    "vector-matmul": ([node("MatMul", "w x")], {"x": (4, 3)}, {"w": V4}, 17),
    "matmul-batched": ([node("MatMul", "x w")], {"x": (2, 1, 3, 4)}, {"w": W.reshape(-1)[:60].reshape(3, 4, 5)}, 17),
    "softmax-9": ([node("Softmax", "x")], X, {}, 9),
    "softmax-13": ([node("Softmax", "x", axis=1)], X, {}, 13),
    "log-softmax": ([node("LogSoftmax", "x", axis=-1)], X34, {}, 13),
    "reduce-mean": ([node("ReduceMean", "x", axes=[1, -1], keepdims=0)], X, {}, 13),
    "reduce-sum": ([node("ReduceSum", "x a")], X, {"a": np.array([2], S64)}, 13),
    "reduce-l2-all": ([node("ReduceL2", "x")], X34, {}, 13),
    "clip-6": ([node("Clip", "x", min=-0.5, max=0.25)], X34, {}, 6),
    "clip-11": ([node("Clip", "x lo")], X34, {"lo": np.float32(-0.25)}, 11),
    "hard-sigmoid": ([node("HardSigmoid", "x", alpha=0.3)], X34, {}, 13),
    "pow": ([node("Pow", "x e")], X34, {"e": np.array([2, 3, 2, 1], S64)}, 13),
    "mean": ([node("Mean", "x v x")], X34, {"v": V4}, 13),
    "mish": ([node("Mish", "x")], X34, {}, 18),
    "where": ([node("Greater", "x v", "c"), node("Where", "c x v")], X34, {"v": V4 - 1}, 13),
    "prelu": ([node("PRelu", "x v")], X34, {"v": V4}, 13),
    "slice": (
        [node("Slice", "x b e a s")],
        X,
        {
            "b": np.array([-1, 1], S64),
            "e": np.array([-99, 99], S64),
            "a": np.array([3, 2], S64),
            "s": np.array([-3, 2], S64),
        },
        13,
    ),
    "slice-9": ([node("Slice", "x", starts=[1], ends=[3], axes=[1])], X, {}, 9),
    "split": (
        [node("Split", "x s", "a b", axis=1), node("Concat", "b a", axis=1)],
        X34,
        {"s": np.array([1, 3], S64)},
        13,
    ),
    "gather": ([node("Gather", "x i", axis=1)], X34, {"i": np.array([[0, -1], [2, 2]], S64)}, 13),
    "expand": ([node("Expand", "x s")], {"x": (3, 1)}, {"s": np.array([2, 1, 4], S64)}, 13),
    "tile": ([node("Tile", "x r")], X34, {"r": np.array([2, 1], S64)}, 13),
    "pad-edge": ([node("Pad", "x p", mode="edge")], X34, {"p": np.array([1, 0, 0, 2], S64)}, 13),
    "pad-2": ([node("Pad", "x", pads=[0, 1, 2, 0], value=3.0)], X34, {}, 2),
    "depth-to-space": ([node("DepthToSpace", "x", blocksize=2)], X, {}, 13),
    "space-to-depth": ([node("SpaceToDepth", "x", blocksize=2)], X, {}, 13),
    "squeeze": (
        [node("Unsqueeze", "x a", "u"), node("Transpose", "u", "t"), node("Squeeze", "t")],
        X34,
        {"a": np.array([0, -1], S64)},
        13,
    ),
    "flatten": ([node("Flatten", "x", axis=-2)], X, {}, 13),
    "dropout": ([node("Dropout", "x")], X34, {}, 13),
}


@pytest.mark.parametrize("case", CASES)
def test_converters_against_onnxruntime(case):
    nodes, inputs, constants, opset = CASES[case]
    proto = model_of(nodes, inputs, ["y"], constants, opset)
    rng = np.random.default_rng(0)
    arrays = {name: rng.uniform(-2, 2, shape).astype(np.float32) for name, shape in inputs.items()}
    (wanted,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, arrays)
    model = mlc.load(proto)
    model.module.verify()
    (result,) = run_function(model.main, list(arrays.values()), model.weights)
    assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=2e-6)


def ops_of(model):
    return [type(op) for op in model.main.body.block.ops][:-1]


def test_shape_chains_disappear():
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n axis", "n1"),
        node("Concat", "n1 rest", "t", axis=0),
        node("Cast", "t", "c", to=INT64),
        helper.make_node("Reshape", ["x", "c"], ["y"], name="flat"),
    ]
    constants = {"zero": np.array(0, S64), "axis": np.array([0], S64), "rest": np.array([-1], S64)}
    model = mlc.load(model_of(nodes, {"x": (2, 3, 4)}, ["y"], constants))
    assert ops_of(model) == [ReshapeOp]
    assert location_name(model.main.body.block.first_op) == "flat"


def test_unnamed_nodes_are_called_by_type_and_index():
    model = mlc.load(model_of([node("Relu", "x", "a"), node("Exp", "a")], X34, ["y"]))
    assert [location_name(op) for op in model.main.body.block.ops][:-1] == ["Relu_0", "Exp_1"]


def test_where_constants_go():
    nodes = [node("ConstantOfShape", "s", "f"), node("Add", "x v", "a"), node("Add", "a w", "b"), node("Add", "b f")]
    constants = {
        "s": np.array([100, 4], S64),
        "v": V4,
        "w": np.ones((100, 4), np.float32) * np.arange(4, dtype=np.float32),
    }
    model = mlc.load(model_of(nodes, {"x": (100, 4)}, ["y"], constants))
    assert ops_of(model)[:3].count(ConstantOp) == 1
    assert [op.entry for op in model.main.body.block.ops if isinstance(op, ParamOp)] == ["w", "f"]
    assert model.weights.fill("f") == 0
    assert model.weights.fill("w") is None
    assert FullOp not in ops_of(model)


def test_unknown_sizes_are_symbols():
    proto = model_of([node("Relu", "x")], {"x": ("batch", 3, None)}, ["y"])
    assert "#graph.dims<[batch, x_2]>" in str(mlc.load(proto).main.function_type)
    assert "#graph.dims<[N, W * 32]>" in str(
        mlc.load(proto, {"x": ("N", 3, "W")}, {"W": (32, 64, 32)}).main.function_type
    )
    assert str(mlc.load(proto, {"x": (2, 3, 5)}).main.function_type.inputs.data[0]) == "tensor<2x3x5xf32>"


def test_minus_one_is_an_unknown_size():
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [-1, 3]) for name in "xy")
    proto = helper.make_model(helper.make_graph([node("Relu", "x")], "g", [x], [y]))
    exe = mlc.compile(proto)
    for rows in (1, 4):
        data = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
        np.testing.assert_array_equal(exe({"x": data})["y"], np.maximum(data, 0))


def test_a_negative_size_is_refused_unless_its_shape_is_given():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [-2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    proto = helper.make_model(helper.make_graph([node("Relu", "x")], "g", [x], [y]))
    with pytest.raises(UserError, match=r"input 'x': expected a size of at least 0 at axis 0, but got -2; pass sh"):
        mlc.load(proto)
    assert str(mlc.load(proto, {"x": (2, 3)}).main.function_type.inputs.data[0]) == "tensor<2x3xf32>"


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            {"x": (2, 4, 5)},
            r"input 'x': expected a shape like \['batch', 3, '\?'\], but got \[2, 4, 5\]; the file fixes axis 1 at 3",
        ),
        ({"x": (2, 3)}, "expected a shape like"),
        ({"x": (2, 3, -1)}, "expected a shape like"),
        ({"x": (2, 0, 5)}, r"expected a shape like \['batch', 3, '\?'\], but got \[2, 0, 5\]"),
        ({"x": "2x3x5"}, r"input 'x': expected a tuple of whole numbers and names as its shape, but got '2x3x5'"),
        ({"x": (2.0, 3, 5)}, "expected a tuple of whole numbers"),
        ({"x": 2}, "expected a tuple of whole numbers and names as its shape, but got 2"),
        ([2, 3, 5], "expected shapes as a dict of input name -> sizes, but got list"),
        ({"z": (1,)}, r"shapes= names \['z'\], but the inputs are \['x'\]"),
    ],
)
def test_shapes_that_do_not_fit(shapes, message):
    with pytest.raises(UserError, match=message):
        mlc.load(model_of([node("Relu", "x")], {"x": ("batch", 3, None)}, ["y"]), shapes)


@pytest.mark.parametrize("source", [None, 3, b"bytes"])
def test_what_is_no_model(source):
    with pytest.raises(UserError, match=r"expected a path, an onnx\.ModelProto or an mlc\.Model, but got"):
        mlc.load(source)


def test_all_unsupported_ops_are_listed():
    nodes = [
        helper.make_node("RegexFullMatch", ["x"], ["a"], name="find"),
        node("Relu", "x", "b"),
        node("StringNormalizer", "b", "c"),
        helper.make_node("Foo", ["c"], ["y"], domain="my.domain"),
    ]
    with pytest.raises(UnsupportedOps) as caught:
        mlc.load(model_of(nodes, X34, ["y"]))
    assert [(path, kind) for path, kind, _ in caught.value.ops] == [
        ("find", "RegexFullMatch"),
        ("StringNormalizer_2", "StringNormalizer"),
        ("Foo_3", "my.domain.Foo"),
    ]
    assert "3 nodes have no counterpart" in str(caught.value)


def tensor_with(**fields) -> TensorProto:
    tensor = TensorProto(name="w", data_type=FLOAT)
    dims = fields.pop("dims", [2, 2])
    tensor.dims.extend(dims)
    for name, value in fields.items():
        if isinstance(value, list):
            getattr(tensor, name).extend(value)
        else:
            setattr(tensor, name, value)
    return tensor


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (tensor_with(raw_data=b"123"), r"initializer 'w': expected 16 bytes for \[2, 2\], but got 3"),
        (tensor_with(dims=[-1, 4], raw_data=b"0" * 16), "expected at most 32 dims, each >= 0"),
        (tensor_with(dims=[1 << 62, 1 << 62], raw_data=b"0" * 16), "expected at most 32 dims, each >= 0, of"),
        (tensor_with(dims=[0, 1 << 62], raw_data=b""), "expected at most 32 dims, each >= 0, of"),
        (tensor_with(dims=[1] * 33, raw_data=b"0" * 4), "expected at most 32 dims"),
        (tensor_with(float_data=[1.0]), "expected 4 values for"),
        (tensor_with(data_type=TensorProto.STRING), "expected elements of float32, .*, but got STRING"),
        (tensor_with(data_type=99), "but got 99"),
    ],
)
def test_malformed_tensors(tensor, message):
    proto = model_of([node("MatMul", "x w")], {"x": (2, 2)}, ["y"])
    proto.graph.initializer.append(tensor)
    with pytest.raises(UserError, match=message):
        mlc.load(proto)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Relu", "z")], r"Relu_0 \(Relu\): no node before it gives its input 'z'"),
        ([node("Relu", "x", "a")], "output 'y': no node gives it"),
        ([node("Relu", "x"), node("Exp", "x")], "expected a new name for output 0, but 'y' is defined already"),
        ([node("Reshape", "x x")], r"Reshape_0 \(Reshape\): expected input 1 \('x'\) to be constant"),
        ([node("Add", "x")], "expected at least 2 inputs, but got 1"),
        ([node("Softmax", "x", axis=7)], r"Softmax_0 \(Softmax\): expected axis in \[-2, 2\)"),
        ([node("MaxPool", "x", kernel_shape=[2, 2])], "expected an input of rank 3 or more, but got rank 2"),
        ([node("LRN", "x", size=3)], "expected an input of rank 3 or more, but got rank 2"),
        ([node("Transpose", "x", perm=[0, 5])], "Transpose_0"),
        ([node("Softmax", "x", axis=[1])], "expected attribute axis of type INT, but got INTS"),
        ([node("Relu", "x", "a m"), node("Not", "m")], "mlc does not compute output 1 of Relu_0"),
    ],
)
def test_malformed_graphs(nodes, message):
    with pytest.raises(UserError, match=message):
        mlc.load(model_of(nodes, X34, ["y"]))


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xffjunk", "not an ONNX model"), (b"", "not an ONNX model: it has no opset_import")],
)
def test_files_that_are_no_models(tmp_path, content, message):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        mlc.load(path)


def test_paths(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        mlc.load(tmp_path / "none.onnx")
    with pytest.raises(UserError, match=r"expected a file that ends in \.onnx, \.mlir or \.pt2"):
        mlc.load(tmp_path / "none.txt")
    with pytest.raises(UserError, match="No such file"):
        mlc.load(tmp_path / "none.mlir")


def test_mlir_files_that_are_wrong(tmp_path):
    path = tmp_path / "m.mlir"
    for text, message in [
        ("func.func @main(", r"m\.mlir:1:"),
        ('func.func @main() {\n %0 = graph.param "w" : tensor<1xf32>\n return\n}', "expected a weight 'w' in"),
        (
            "func.func @main(%x: tensor<2xf32>) {\n %0 = graph.relu %x : (tensor<2xf32>) -> tensor<3xf32>\n return\n}",
            "expected result of type",
        ),
    ]:
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            mlc.load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not a text file"):
        mlc.load(path)


def external_model(tmp_path, location: str, **record) -> str:
    proto = model_of([node("MatMul", "x w")], {"x": (2, 2)}, ["y"])
    tensor = tensor_with(data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **record}.items():
        tensor.external_data.add(key=key, value=str(value))
    proto.graph.initializer.append(tensor)
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return str(path)


W22 = np.arange(4, dtype=np.float32).reshape(2, 2)


def test_external_data_is_mapped(tmp_path):
    keys = {"__class__": "os", "data_location": 0, "raw_data": "1", "checksum": "0"}  # what is not known says nothing
    path = external_model(tmp_path, "w.bin", offset=8, length=16, **keys)
    (tmp_path / "model" / "w.bin").write_bytes(b"\0" * 8 + W22.tobytes())
    model = mlc.load(path)
    np.testing.assert_array_equal(run_function(model.main, [np.eye(2, dtype=np.float32)], model.weights)[0], W22)


@pytest.mark.parametrize(
    ("location", "record", "message"),
    [
        ("../w.bin", {}, "expected external data below the model's directory"),
        ("/etc/passwd", {}, "expected external data below the model's directory"),
        ("a/../../w.bin", {}, "expected external data below the model's directory"),
        ("", {}, "expected external data below the model's directory"),
        ("link.bin", {}, "expected external data in a file without links"),
        ("linked/w.bin", {}, "expected external data in a file without links"),
        ("hard.bin", {}, "expected external data in a regular file without links"),
        ("folder", {}, "expected external data in a regular file without links"),
        ("pipe", {}, "expected external data in a regular file without links"),
        ("none.bin", {}, "external data 'none.bin': No such file"),
        ("w.bin/w.bin", {}, "external data 'w.bin/w.bin': Not a directory"),
        ("w.bin", {"offset": -8}, "expected 16 bytes in 'w.bin', but got 16 at -8 of 16"),
        ("w.bin", {"offset": 8}, "expected 16 bytes in 'w.bin'"),
        ("w.bin", {"length": 8}, "expected 16 bytes in 'w.bin', but got 8"),
        ("w.bin", {"offset": "x"}, "expected integers for offset and length"),
    ],
)
def test_hostile_external_data(tmp_path, location, record, message):
    path = external_model(tmp_path, location, **record)
    folder = tmp_path / "model"
    (tmp_path / "w.bin").write_bytes(W22.tobytes())
    (tmp_path / "h.bin").write_bytes(W22.tobytes())
    (folder / "w.bin").write_bytes(W22.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    (folder / "linked").symlink_to(tmp_path)
    (folder / "folder").mkdir()
    os.link(tmp_path / "h.bin", folder / "hard.bin")
    os.mkfifo(folder / "pipe")
    with pytest.raises(UserError, match=message):
        mlc.load(path)


def test_external_data_needs_a_path(tmp_path):
    proto = onnx.load(external_model(tmp_path, "w.bin"), load_external_data=False)
    with pytest.raises(UserError, match=r"its data is in the file 'w\.bin': load the model from its path"):
        mlc.load(proto)


def test_damaged_files_give_one_error(tmp_path):
    """Bytes changed at random: the model loads, or a UserError says what is wrong; nothing else comes out."""
    proto = model_of([node("Conv", "x w", group=2, pads=[1, 1, 1, 1]), node("Relu", "y", "z")], X, ["z"], {"w": W})
    data = proto.SerializeToString()
    heads = [i for i in range(len(data)) if not 150 < i < len(data) - 150]  # the weights say nothing
    rng = np.random.default_rng(0)
    outcomes = {"loads": 0, "error": 0}
    for _ in range(300):
        damaged = bytearray(data)
        for position in rng.choice(heads, rng.integers(1, 6)):
            damaged[position] = rng.integers(0, 256)
        path = tmp_path / "m.onnx"
        path.write_bytes(damaged)
        try:
            mlc.load(path)
            outcomes["loads"] += 1
        except UserError:
            outcomes["error"] += 1
    assert min(outcomes.values()) > 0
