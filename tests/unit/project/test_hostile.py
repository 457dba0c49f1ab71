"""Files made to do harm: one diagnostic with a place, exit code 1, in bounded time and memory; never a traceback."""

import ast
import json
import math
import os
import resource
import subprocess
import sys
from random import Random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mlc.support.limits import limits
from mlc.support.weights import WeightStore
from mlc.tools import cli

FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64
MEMORY = 4 << 30


def node(kind, inputs, outputs="y", **attrs):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attrs)


def info(name, shape, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, shape=(3, 4), constants=None, functions=(), opset=18):
    """A model with the input x and the output y."""
    weights = [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", [info("x", shape)], [info("y", None)], weights)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=list(functions))


def function(name, *nodes, inputs="a", outputs="b"):
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    return helper.make_function("f", name, inputs.split(), outputs.split(), list(nodes), opsets)


def call(name, inputs="a", outputs="b"):
    return node(name, inputs, outputs, domain="f")


def doubled(depth):
    """Functions of which each calls the next twice: 2^depth nodes in a few hundred bytes."""
    calls = [function(f"F{k}", call(f"F{k + 1}", "a", "c"), call(f"F{k + 1}", "c")) for k in range(depth)]
    return [*calls, function(f"F{depth}", node("Relu", "a", "b"))]


def nested(depth):
    """Ifs inside of one another."""
    out = [info("z", None)]
    body = helper.make_graph([node("Relu", "x", "z")], "g", [], out)
    leaf = body
    for _ in range(depth):
        body = helper.make_graph([node("If", "no", "z", then_branch=body, else_branch=leaf)], "g", [], out)
    return body


def changed(proto, change):
    change(proto)
    return proto


def with_attribute(kind, **fields):
    proto = model([node(kind, "x")])
    proto.graph.node[0].attribute.append(onnx.AttributeProto(**fields))
    return proto


def i64(*values):
    return np.array(values, np.int64)


RELU = [node("Relu", "x")]
W = {"w": np.ones((1, 1, 2, 2), np.float32)}
PICTURE = (1, 1, 4, 4)
TOO_LARGE = r"expected at most 32 dims, each >= 0, of 4294967296 elements"
LOOP = helper.make_graph(
    [node("Identity", "c", "co"), node("Relu", "v", "vo")],
    "b",
    [info("i", (), INT64), info("c", (), BOOL), info("v", (3, 4))],
    [info("co", (), BOOL), info("vo", (3, 4))],
)
# What is wrong -> (the model, what the diagnostic says).
HOSTILE = {
    "cycle": (
        model([node("Relu", "b", "a"), node("Relu", "a", "b"), node("Relu", "b")]),
        "Relu_0 (Relu): no node before it gives its input 'b'",
    ),
    "input twice": (
        changed(model(RELU), lambda m: m.graph.input.append(m.graph.input[0])),
        "expected a name for each input, but 'x' stands for two",
    ),
    "initializer twice": (
        changed(
            model([node("Add", "x w")], constants={"w": np.ones(4)}),
            lambda m: m.graph.initializer.append(m.graph.initializer[0]),
        ),
        "expected a name for each initializer, but 'w' stands for two",
    ),
    "sparse initializer": (
        changed(
            model([node("Add", "x w")]),
            lambda m: m.graph.sparse_initializer.append(onnx.SparseTensorProto(values=TensorProto(name="w"), dims=[4])),
        ),
        "expected dense initializers, but 'w' is sparse",
    ),
    "function calls itself": (
        model([call("F", "x", "y")], functions=[function("F", call("F"))]),
        "expected functions nested at most 32 deep",
    ),
    "functions in a circle": (
        model([call("F", "x", "y")], functions=[function("F", call("G")), function("G", call("F"))]),
        "expected functions nested at most 32 deep",
    ),
    "functions that double": (
        model([call("F0", "x", "y")], functions=doubled(25)),
        "expected at most 1000000 nodes, functions written out, but got",
    ),
    "function without its input": (
        model([call("F", "x", "y")], functions=[function("F", node("Add", "a q", "b"), inputs="a q")]),
        "F_0/Add_0 (Add): expected at least 2 inputs",
    ),
    "function without its output": (
        model([call("F", "x", "y")], functions=[function("F", node("Relu", "a", "c"))]),
        "mlc does not compute output 0 of F_0",
    ),
    "input size 2^62": (model(RELU, (1 << 40, 1 << 22)), f"input 'x': {TOO_LARGE}"),
    "input size 2^65": (model(RELU, ((1 << 63) - 1, 4)), f"input 'x': {TOO_LARGE}"),
    "input rank 100": (model(RELU, (1,) * 100), f"input 'x': {TOO_LARGE}"),
    "rank by Unsqueeze": (model([node("Unsqueeze", "x a")], constants={"a": i64(*range(90))}), TOO_LARGE),
    "Tile": (model([node("Tile", "x r")], constants={"r": i64(1 << 30, 1 << 30)}), f"Tile_0: {TOO_LARGE}"),
    "Tile past 64 bits": (model([node("Tile", "x r")], constants={"r": i64(1 << 62, 1 << 62)}), TOO_LARGE),
    "Expand": (model([node("Expand", "x r")], constants={"r": i64(1 << 40, 3, 4)}), TOO_LARGE),
    "Pad": (model([node("Pad", "x p")], constants={"p": i64(1 << 40, 0, 0, 1 << 40)}), TOO_LARGE),
    "Pad below 0": (
        model([node("Pad", "x p")], constants={"p": i64(-5, 0, 0, -5)}),
        "Pad_0 (Pad): expected pads that crop at most",
    ),
    "ConstantOfShape": (
        model([node("ConstantOfShape", "r")], constants={"r": i64(1 << 40, 1 << 20)}),
        "a shape of at most 2147483648 elements",
    ),
    "ConstantOfShape below 0": (model([node("ConstantOfShape", "r")], constants={"r": i64(-4, 2)}), "[-4, 2]"),
    "Range": (
        model([node("Range", "a b c")], constants={"a": np.int64(0), "b": np.int64(1 << 50), "c": np.int64(1)}),
        "expected a range of at most 2147483648 elements",
    ),
    "Range by 0": (
        model([node("Range", "a b c")], constants={"a": np.int64(0), "b": np.int64(5), "c": np.int64(0)}),
        "Range_0 (Range): expected a range",
    ),
    "Range to NaN": (
        model([node("Range", "a b c")], constants={"a": np.float32(0), "b": np.float32(math.nan), "c": np.float32(1)}),
        "Range_0 (Range): ",
    ),
    "Split in 2^40": (model([node("Split", "x", num_outputs=1 << 40)]), "expected num_outputs to be 1"),
    "Resize": (
        model([helper.make_node("Resize", ["x", "", "s"], ["y"])], PICTURE, {"s": np.float32([1, 1, 1e9, 1e9])}),
        TOO_LARGE,
    ),
    "Resize by NaN": (
        model([helper.make_node("Resize", ["x", "", "s"], ["y"])], PICTURE, {"s": np.float32([1, 1, math.nan, 2])}),
        "Resize_0 (Resize): ",
    ),
    "Resize by infinity": (
        model([helper.make_node("Resize", ["x", "", "s"], ["y"])], PICTURE, {"s": np.float32([1, 1, math.inf, 2])}),
        "Resize_0 (Resize): ",
    ),
    "Conv pads": (model([node("Conv", "x w", pads=[1 << 40] * 4)], PICTURE, W), TOO_LARGE),
    "Conv pads below 0": (model([node("Conv", "x w", pads=[-9] * 4)], PICTURE, W), "expected pads of 4 integers >= 0"),
    "Conv strides": (model([node("Conv", "x w", strides=[0, 0])], PICTURE, W), "Conv_0 (Conv): expected strides"),
    "Conv dilations": (model([node("Conv", "x w", dilations=[0, 0])], PICTURE, W), "expected dilation"),
    "Conv group": (model([node("Conv", "x w", group=0)], PICTURE, W), "expected at least 1 group, but got 0"),
    "MaxPool window": (model([node("MaxPool", "x", kernel_shape=[1 << 40, 1])], PICTURE), "a window that fits"),
    "MaxPool window 0": (model([node("MaxPool", "x", kernel_shape=[0, 0])], PICTURE), "MaxPool_0 (MaxPool): expected"),
    "DepthToSpace by 0": (
        model([node("DepthToSpace", "x", blocksize=0)], (1, 4, 4, 4)),
        "expected a blocksize of at least 1, but got 0",
    ),
    "DepthToSpace by -2": (
        model([node("DepthToSpace", "x", blocksize=-2)], (1, 4, 4, 4)),
        "expected a blocksize of at least 1, but got -2",
    ),
    "DFT": (model([node("DFT", "x n")], (1, 5, 1), {"n": np.int64(1 << 40)}), "DFT_0"),
    "RoiAlign": (
        model(
            [node("RoiAlign", "x r b", output_height=1 << 40, output_width=1 << 40)],
            PICTURE,
            {"r": np.zeros((1, 4), np.float32), "b": i64(0)},
        ),
        "RoiAlign_0",
    ),
    "axis 2^62": (model([node("Softmax", "x", axis=1 << 62)]), "Softmax_0 (Softmax): expected axis in [-2, 2)"),
    "TopK": (model([node("TopK", "x k", "y i")], constants={"k": i64(1 << 40)}), "TopK_0 (TopK): expected k in 0..4"),
    "Slice by 0": (
        model([node("Slice", "x a b c s")], constants={"a": i64(0), "b": i64(2), "c": i64(0), "s": i64(0)}),
        "Slice_0 (Slice)",
    ),
    "Reshape": (model([node("Reshape", "x r")], constants={"r": i64(-5, 2)}), "Reshape_0 (Reshape)"),
    "Einsum": (model([node("Einsum", "x", equation="((((")]), "Einsum_0 (Einsum)"),
    "a loop without end": (model([node("Loop", "m c x", body=LOOP)]), "Loop_0"),
    "If without a branch": (model([node("If", "x")]), "If_0 (If): expected an attribute"),
    "Loop without a body": (model([node("Loop", "x x x")]), "Loop_0 (Loop): expected an attribute body, but got none"),
    "opset 0": (model(RELU, opset=0), "expected an opset of 1 to"),
    "opset -5": (model(RELU, opset=-5), "expected an opset of 1 to"),
    "opset 9999": (model(RELU, opset=9999), "but got 9999"),
    "opset 2^62": (model(RELU, opset=1 << 62), "but got 4611686018427387904"),
    "opset of a domain": (
        changed(model(RELU), lambda m: setattr(m.opset_import[1], "version", 1 << 62)),
        "expected opset versions below 2^31",
    ),
    "reference to no attribute": (
        with_attribute("LeakyRelu", name="alpha", ref_attr_name="q", type=1),
        "LeakyRelu_0 (LeakyRelu): ",
    ),
    "constant of size -1": (
        model([helper.make_node("Constant", [], ["y"], value=TensorProto(data_type=1, dims=[-1, 2]))]),
        "expected at most 32 dims, each >= 0, but got [-1, 2]",
    ),
    "a sequence": (
        changed(
            model(RELU), lambda m: m.graph.input.append(helper.make_tensor_sequence_value_info("s", FLOAT, None))
        ),
        "input 's': expected what it holds",
    ),
    "no element type": (
        changed(model(RELU), lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 0)),
        "input 'x': expected elements of float32",
    ),
    "cast to no type": (model([node("Cast", "x", to=77)]), "but got 77"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def bounded():
    """No test may take much memory."""
    old = resource.getrlimit(resource.RLIMIT_AS)
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, old[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, old)


def refusal(data: bytes, folder, capsys) -> str:
    """The one diagnostic about a file."""
    path = folder / "m.onnx"
    path.write_bytes(data)
    code = cli.run(["compile", str(path), "--emit", "graph", "--no-cache"])
    err = capsys.readouterr().err
    assert code == 1, err
    assert err.startswith("mlc: error: ")
    assert err.count("\n") == 1
    assert err.rstrip("\n").isprintable()
    return err


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_models_are_refused(what, tmp_path, capsys):
    proto, message = HOSTILE[what]
    found = refusal(proto.SerializeToString(), tmp_path, capsys)
    assert message.replace("\\", "") in found


def test_every_truncation_is_refused_or_loads(tmp_path, capsys):
    data = model([node("Conv", "x w", pads=[1, 1, 1, 1]), node("Relu", "y", "z")], PICTURE, W).SerializeToString()
    refused = 0
    for length in range(0, len(data), 3):
        (tmp_path / "m.onnx").write_bytes(data[:length])
        code = cli.run(["check", str(tmp_path / "m.onnx")])
        capsys.readouterr()
        assert code in (0, 1)
        refused += code
    assert refused > len(data) // 6


def test_a_claim_of_2_gb_reads_nothing(tmp_path, capsys):
    # field 7 (graph), length 2^31 - 1, and then nothing
    assert "not an ONNX model" in refusal(b"\x3a\xff\xff\xff\xff\x07", tmp_path, capsys)


def test_names_that_are_not_text(tmp_path, capsys):
    data = model([node("Relu", "x", name="NAME")]).SerializeToString()
    assert "a name in it is not UTF-8" in refusal(data.replace(b"NAME", b"\xff\xfe\xfd\xfc"), tmp_path, capsys)


def test_names_cannot_write_to_the_terminal(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    path.write_bytes(model([node("Evil\nOp", "x", name="a\nb\x1b[31m")]).SerializeToString())
    assert cli.run(["compile", str(path)]) == 1
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert r"a\nb\x1b[31m: Evil\nOp" in err


@pytest.mark.parametrize("depth", [5, 40, 400])
def test_nesting(depth, tmp_path, capsys):
    try:
        proto = model([node("If", "no", then_branch=nested(depth), else_branch=nested(0))], constants={"no": False})
    except Exception:  # protobuf itself refuses to build it
        return
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    assert cli.run(["check", str(tmp_path / "m.onnx")]) in (0, 1)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_attributes_that_are_no_numbers_compute_what_they_say(value):
    import mlc

    exe = mlc.compile(model([node("LeakyRelu", "x", alpha=value)]), threads=1)
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(exe({"x": x})["y"], np.where(x >= 0, x, x * np.float32(value)))


WATCHED = """
import os, sys
import mlc, mlc.tools.cli
path, events = sys.argv[1], []
mlc.load(path)  # what mlc itself reads
RUNS = ("pickle.", "marshal.", "socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.system", "ctypes.")
def watch(event, args):
    if event.startswith(RUNS) or event in ("import", "exec", "compile", "open"):
        events.append((event, str(args[0])))
sys.addaudithook(watch)
mlc.load(path)
print([(event, what) for event, what in events if not what.isdecimal()])  # but files that are open already
"""


def test_loading_imports_and_runs_nothing_of_the_file(tmp_path):
    """Names in a model are names: none is looked up as a module, an attribute or a file; nothing but it is opened."""
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    proto = model([node("Add", "x w", name="evil", doc_string="import evil")], constants={"w": np.ones(4, np.float32)})
    proto.metadata_props.add(key="__class__", value="evil.Model")
    proto.producer_name = "evil:Model"
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    command = [sys.executable, "-c", WATCHED, str(tmp_path / "m.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    opened = {("open", str(tmp_path / "m.onnx")), ("open", str(tmp_path)), ("open", "w.bin")}
    assert set(ast.literal_eval(done.stdout)) <= opened


@pytest.mark.parametrize("suffix", [".onnx", ".mlir"])
@pytest.mark.parametrize("command", ["check", "compile"])
@pytest.mark.parametrize("kind", ["a pipe", "a device", "a directory"])
def test_what_is_no_file_is_not_read(kind, command, suffix, tmp_path, capsys):
    path = tmp_path / f"m{suffix}"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
        if command == "compile":
            return  # of what `mlc compile -o DIR` wrote
    assert cli.run([command, str(path)]) == 1
    assert f"{path}: expected a regular file, but got {kind}" in capsys.readouterr().err


def test_a_file_larger_than_protobuf_reads_is_not_read(tmp_path, capsys):
    with (tmp_path / "m.onnx").open("wb") as file:
        file.truncate(1 << 40)  # takes no room
    assert cli.run(["check", str(tmp_path / "m.onnx")]) == 1
    assert "expected a file of at most 2147483647 bytes, but got 1099511627776" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("--max-ops=1", "expected at most 1 nodes, but got 2; raise the limit with --max-ops"),
        ("--max-rank=1", "expected at most 1 dims"),
        ("--max-tensor-elements=4", "expected at most 32 dims, each >= 0, of 4 elements in all, but got 3x4"),
    ],
)
def test_limits_are_flags(limit, message, tmp_path, capsys, monkeypatch):
    for name, value in vars(limits).items():
        monkeypatch.setattr(limits, name, value)  # what the command sets is put back
    path = tmp_path / "m.onnx"
    path.write_bytes(model([node("Relu", "x", "a"), node("Exp", "a")]).SerializeToString())
    assert cli.run(["compile", str(path), "--emit", "graph", "--no-cache", limit]) == 1
    assert message in capsys.readouterr().err
    assert cli.run(["compile", str(path), "--emit", "graph", "--no-cache"]) == 0


def test_limits_of_text_are_flags(tmp_path, capsys, monkeypatch):
    for name, value in vars(limits).items():
        monkeypatch.setattr(limits, name, value)
    (tmp_path / "m.mlir").write_text(TEXT)
    assert cli.run(["check", str(tmp_path / "m.mlir"), "--max-input-bytes=100"]) == 1
    assert "expected a file of at most 100 bytes" in capsys.readouterr().err
    for limit, message in {
        "elements": "expected a constant of at most 3 elements, but got 4",
        "tensor-elements": "expected a tensor of at most 3 elements, but got 4",
    }.items():
        assert cli.run(["check", str(tmp_path / "m.mlir"), f"--max-{limit}=3"]) == 1
        assert "m.mlir:2:" in (err := capsys.readouterr().err)
        assert message in err


@pytest.mark.parametrize("size", ["1099511627776", "99999999999999999999", "0x18446744073709551616"])
def test_text_of_sizes_that_no_memory_holds(size, tmp_path, capsys):
    text = "func.func @main(%x: T) -> T {\n  %1 = graph.relu %x : T\n  return %1 : T\n}\n"
    (tmp_path / "m.mlir").write_text(text.replace("T", f"tensor<{size}x4xf32>"))
    assert cli.run(["check", str(tmp_path / "m.mlir")]) == 1
    assert "expected a tensor of at most 4294967296 elements, but got" in capsys.readouterr().err


TEXT = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = graph.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %w = graph.param "w" : tensor<4xf32>
  %1 = graph.add %x, %c : tensor<4xf32>
  %2 = graph.softmax %1 {axis = 0} : tensor<4xf32>
  %3 = graph.multiply %2, %w : tensor<4xf32>
  return %3 : tensor<4xf32>
}
"""
PIECES = [
    "<",
    ">",
    "{",
    "}",
    "(",
    "%1",
    "dense<",
    "-1",
    "9" * 30,
    '"',
    "?",
    "!x",
    "#x",
    "loc(",
    "x0x",
    "f32",
    "bf16",
    "\0",
]


@pytest.mark.parametrize("seed", range(4))
def test_mutated_text_is_refused_in_one_line(seed, tmp_path, capsys):
    """A model of IR text with pieces taken out, put in and swapped: a place and exit code 1, or it is still valid."""
    random, refused = Random(seed), 0
    store = WeightStore()
    store.add("w", np.ones(4, np.float32))
    store.save(tmp_path / "m.safetensors")
    for _ in range(60):
        text = TEXT
        for _ in range(random.randrange(1, 4)):
            at, size = random.randrange(len(text)), random.randrange(1, 20)
            text = (
                text[:at]
                + random.choice([*PIECES, text[at : at + size] * 2, ""])
                + text[at + random.choice([0, size]) :]
            )
        (tmp_path / "m.mlir").write_text(text)
        code = cli.run(["check", str(tmp_path / "m.mlir")])
        err = capsys.readouterr().err
        assert code in (0, 1), (text, err)
        assert err.count(": error: ") == code, (text, err)
        assert err.count("\n") in (code, 3 * code), (text, err)  # with the line and a caret
        refused += code
    assert refused > 30


@pytest.mark.parametrize(
    ("fills", "message"),
    [
        ("[[", "the records of fills are not JSON"),
        ("[]", "expected records of fills by name"),
        ('{"w": 1}', "expected records of fills by name"),
        ('{"w": {"dtype": "F32", "shape": [4]}}', "expected 4 bytes in hexadecimal for the fill 'w'"),
        ('{"w": {"dtype": "F32", "shape": [4], "value": "zz"}}', "expected 4 bytes in hexadecimal"),
        ('{"w": {"dtype": "F32", "shape": [4], "value": "00"}}', "expected 4 bytes in hexadecimal"),
        ('{"w": {"dtype": "F32", "shape": [-4], "value": "00000000"}}', "expected a shape of at most 32 sizes >= 0"),
        ('{"w": {"dtype": "F32", "shape": [4, 1099511627776], "value": "00000000"}}', "expected weight 'w' of type"),
    ],
)
def test_fills_that_are_none(fills, message, tmp_path, capsys):
    header = json.dumps({"__metadata__": {"mlc.fills": fills}}).encode()
    (tmp_path / "m.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    (tmp_path / "m.mlir").write_text(TEXT)
    assert cli.run(["check", str(tmp_path / "m.mlir")]) == 1
    assert message in capsys.readouterr().err
