"""graph-convert-layout: values stay, transposes go to the borders, and what it refuses."""

from pathlib import Path

import numpy as np
import onnx
import onnx.helper as oh
import pytest
from graph_passes import names, optimize
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mlc
from mlc.dialects.graph.store import attach_store
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.support.errors import UserError

ORDERS = [(0, 2, 3, 1), (0, 3, 1, 2), (0, 3, 2, 1)]


class Network:
    """A random network of convolutions, transposes and what follows the order of axes, as text."""

    def __init__(self, data: st.DataObject) -> None:
        self.data, self.lines = data, []
        self.values: list[tuple[str, tuple[int, ...]]] = [("%x", (1, 3, 6, 5))]

    def type(self, shape: tuple[int, ...]) -> str:
        return f"tensor<{'x'.join(map(str, shape))}xf32>"

    def add(self, op: str, operands: list[tuple[str, tuple[int, ...]]], attrs: str, shape: tuple[int, ...]) -> None:
        name, types = f"%{len(self.lines)}", ", ".join(self.type(s) for _, s in operands)
        values = ", ".join(v for v, _ in operands)
        self.lines.append(f"{name} = graph.{op} {values} {attrs} : ({types}) -> {self.type(shape)}")
        self.values.append((name, shape))

    def param(self, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        name = f"%{len(self.lines)}"
        self.lines.append(f'{name} = graph.param "p{len(self.lines)}" : {self.type(shape)}')
        return name, shape

    def step(self) -> None:
        value, shape = one = self.data.draw(st.sampled_from(self.values))
        axis = self.data.draw(st.integers(0, 3))
        kind = self.data.draw(st.sampled_from("conv conv transpose transpose unary add bias softmax mean".split()
                                              + "pool concat slice pad split row".split()))  # fmt: skip
        if kind == "conv":
            weight = self.param((self.data.draw(st.sampled_from([2, 4])), shape[1], 1, 1))
            self.add("conv2d", [one, weight], "", (shape[0], weight[1][0], *shape[2:]))
        elif kind == "transpose":
            order = self.data.draw(st.sampled_from(ORDERS))
            self.add("transpose", [one], f"{{axes = {list(order)}}}", tuple(shape[a] for a in order))
        elif kind == "add":
            self.add(
                "add", [one, self.data.draw(st.sampled_from([v for v in self.values if v[1] == shape]))], "", shape
            )
        elif kind == "row":
            self.add("multiply", [one, self.param(shape[axis:])], "", shape)
        elif kind == "bias":
            self.add("bias_add", [one, self.param((shape[axis],))], f"{{axis = {axis}}}", shape)
        elif kind == "softmax":
            self.add("softmax", [one], f"{{axis = {axis}}}", shape)
        elif kind == "mean":
            small = tuple(1 if a == axis else n for a, n in enumerate(shape))
            self.add("mean", [one], f"{{axes = [{axis}], keepdims = true}}", small)
            self.add("subtract", [one, self.values[-1]], "", shape)
        elif kind == "pool":
            self.add("max_pool2d", [one], "{pool_size = [3, 3], padding = [1, 1, 1, 1]}", shape)
        elif kind == "concat":
            double = tuple(2 * n if a == axis else n for a, n in enumerate(shape))
            self.add("concatenate", [one, one], f"{{axis = {axis}}}", double)
        elif kind == "slice":
            begin = [1 if a == axis and n > 1 else 0 for a, n in enumerate(shape)]
            attrs = f"{{begin = {begin}, end = {list(shape)}, strides = [1, 1, 1, 1]}}"
            self.add("slice", [one], attrs, tuple(n - b for n, b in zip(shape, begin, strict=True)))
        elif kind == "pad":
            width = [1 if i == 2 * axis else 0 for i in range(8)]
            self.add("pad", [one], f"{{pad_width = {width}}}", tuple(n + (a == axis) for a, n in enumerate(shape)))
        elif kind == "split" and shape[axis] > 1:
            name, sizes = f"%{len(self.lines)}", (1, shape[axis] - 1)
            parts = [tuple(size if a == axis else n for a, n in enumerate(shape)) for size in sizes]
            types = ", ".join(map(self.type, parts))
            attrs = f"{{axis = {axis}, sections = {list(sizes)}}}"
            self.lines.append(f"{name}:2 = graph.split {value} {attrs} : ({self.type(shape)}) -> ({types})")
            self.values += [(f"{name}#{k}", part) for k, part in enumerate(parts)]
        else:
            self.add("tanh", [one], "", shape)

    def text(self) -> str:
        results = self.values[-2:]
        types = ", ".join(self.type(shape) for _, shape in results)
        head = f"func.func @main(%x: {self.type(self.values[0][1])}) -> ({types}) {{"
        return "\n".join([head, *self.lines, f"return {', '.join(v for v, _ in results)} : {types}", "}"])


DESIRED = ["conv2d:NHWC", "conv2d:NCHW", "conv2d:NHWC:HWIO,max_pool2d:NCHW", "max_pool2d:HWCN"]


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.data(), st.sampled_from(DESIRED))
def test_random_networks_agree(data: st.DataObject, desired: str):
    network = Network(data)
    for _ in range(data.draw(st.integers(1, 9))):
        network.step()
    optimize(network.text(), f"graph-convert-layout{{desired={desired}}}")


def nhwc_model(path: Path) -> None:
    """Each convolution between a transpose from NHWC and one back, as converters from TensorFlow write it."""
    rng = np.random.default_rng(5)
    weights = {f"w{k}": rng.standard_normal((16, 3 if k == 0 else 16, 3, 3)).astype(np.float32) / 9 for k in range(3)}
    nodes = []
    value = "x"
    for k in range(3):
        nodes += [
            oh.make_node("Transpose", [value], [f"t{k}"], perm=[0, 3, 1, 2]),
            oh.make_node("Conv", [f"t{k}", f"w{k}"], [f"c{k}"], pads=[1, 1, 1, 1]),
            oh.make_node("Transpose", [f"c{k}"], [f"u{k}"], perm=[0, 2, 3, 1]),
            oh.make_node("Relu", [f"u{k}"], [f"r{k}"]),
        ]
        value = f"r{k}"
        if k == 1:
            nodes.append(oh.make_node("Add", ["r0", "r1"], ["sum"]))
            value = "sum"
    nodes.append(oh.make_node("ReduceMean", ["r2"], ["y"], axes=[1, 2], keepdims=0))
    info = [oh.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in (("x", (1, 9, 9, 3)), ("y", (1, 16)))]
    initial = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = oh.make_graph(nodes, "nhwc", info[:1], info[1:], initial)
    onnx.save(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 13)], ir_version=8), path)


def test_a_model_from_nhwc_has_no_transposes_at_o3(tmp_path: Path):
    import onnxruntime

    nhwc_model(path := tmp_path / "nhwc.onnx")
    x = np.random.default_rng(1).standard_normal((1, 9, 9, 3)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    exe = mlc.compile(path, threads=1, cache=False, validate_each=True)
    np.testing.assert_allclose(exe({"x": x})["y"], expected, rtol=1e-4, atol=1e-5)
    kernels = [node["kernel"] for node in exe.graph_json["nodes"]]
    assert len(kernels) == 4, kernels  # three convolutions and the mean
    model = mlc.load(path)
    attach_store(model.module, model.weights)
    run_passes(model.module, make_context(), ["graph-O3"])
    assert not {"graph.transpose", "graph.layout_transform"} & {op.name for op in model.module.walk()}


def test_it_is_the_same_pass_both_ways():
    text = """func.func @main(%x: tensor<1x3x6x6xf32>, %w: tensor<4x3x1x1xf32>) -> tensor<1x4x6x6xf32> {
      %0 = graph.conv2d %x, %w : (tensor<1x3x6x6xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x6x6xf32>
      return %0 : tensor<1x4x6x6xf32>
    }"""
    there = optimize(text, "graph-convert-layout{desired=conv2d:NHWC:HWIO}")
    assert names(there) == ["transpose", "transpose", "conv2d", "transpose"]
    back = optimize(str(there), "graph-convert-layout{desired=conv2d:NCHW:OIHW},graph-canonicalize")
    assert names(back) == ["conv2d"]


@pytest.mark.parametrize(
    ("desired", "message"),
    [
        ("conv:NHWC", "expected an op among conv2d, .*, but got 'conv'"),
        ("conv2d:NHC", "expected a layout of conv2d like NHWC, but got 'NHC'"),
        ("conv2d:NCHW16c", "but got 'NCHW16c'; graph-alter-op-layout makes blocks"),
        ("conv2d:NHWC:HWI", "expected a kernel layout of conv2d like HWIO, but got 'HWI'"),
        ("max_pool2d:NHWC:HWIO", "expected max_pool2d:layout, but got 'max_pool2d:NHWC:HWIO'"),
    ],
)
def test_wrong_options_are_refused(desired: str, message: str):
    with pytest.raises(UserError, match=message):
        optimize("func.func @main() { return }", f"graph-convert-layout{{desired={desired}}}")


def test_fused_regions_are_refused():
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = graph.exp %x : tensor<4xf32>
      %1 = graph.relu %0 : tensor<4xf32>
      return %1 : tensor<4xf32>
    }"""
    with pytest.raises(UserError, match=r"expected a module without graph\.fused; run graph-defuse-ops"):
        optimize(text, "graph-fuse-ops", "graph-convert-layout")
