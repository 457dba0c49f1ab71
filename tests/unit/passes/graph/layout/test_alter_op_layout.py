"""Layouts: which blocks are chosen, how each family takes them, and that values stay."""

import numpy as np
import pytest
from graph_passes import names, optimize, random_store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlc.dialects.graph import AvgPool2dOp, Conv2dOp, DenseOp, LayoutTransformOp, MaxPool2dOp
from mlc.dialects.graph.store import attach_store
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.interp.graph import main_function, run_function
from mlc.passes.graph.layout.alter_op_layout import AlterOpLayoutPass
from mlc.passes.graph.shared.blocks import channel_block, divisor_block, kernel_name
from mlc.support.errors import UserError

ALTER = "graph-alter-op-layout,graph-canonicalize,graph-fold-constant,graph-canonicalize"


@pytest.mark.parametrize(
    ("channels", "block"),
    [(64, 16), (120, 16), (30, 16), (24, 8), (20, 8), (3, 3), (8, 8), (12, 12), (40, 8), (15, 16), (72, 16)],
)
def test_channel_blocks(channels, block):
    assert channel_block(channels, 16) == block


def test_half_blocks_where_halves_cost_half() -> None:
    sizes = (24, 40, 64, 72, 120, 250, 3)
    assert [channel_block(size, 16) for size in sizes] == [8, 8, 16, 16, 16, 16, 3]
    assert [channel_block(size, 16, halves=True) for size in sizes] == [8, 8, 16, 8, 8, 16, 3]


def test_blocks_inside_a_group_divide_it():
    assert [divisor_block(size, 16) for size in (32, 24, 7, 1, 34)] == [16, 12, 7, 1, 2]
    assert [divisor_block(size, 16, halves=True) for size in (48, 24, 72, 12, 34)] == [16, 24, 24, 12, 2]
    assert [kernel_name(3, 16), kernel_name(0, 16), kernel_name(16, 1)] == ["OIHW3i16o", "OIHW16o", "OIHW16i"]


def conv(c, o, groups=1, size=6, attrs="padding = [1, 1, 1, 1]"):
    i, p, k = c // groups, size, 3
    w = f"tensor<{o}x{i}x{k}x{k}xf32>"
    return f"""func.func @main(%x: tensor<2x{c}x{size}x{size}xf32>) -> tensor<2x{o}x{p}x{p}xf32> {{
      %w = graph.param "w" : {w}
      %0 = graph.conv2d %x, %w {{{attrs}, groups = {groups}}} : (tensor<2x{c}x{size}x{size}xf32>, {w}) -> tensor<2x{o}x{p}x{p}xf32>
      %1 = graph.relu %0 : tensor<2x{o}x{p}x{p}xf32>
      return %1 : tensor<2x{o}x{p}x{p}xf32>
    }}"""  # noqa: E501


@pytest.mark.parametrize(
    ("c", "o", "groups", "layouts"),
    [
        (3, 32, 1, ("NCHW3c", "OIHW3i16o", 0)),
        (16, 30, 1, ("NCHW16c", "OIHW16i16o", 30)),
        (24, 20, 1, ("NCHW8c", "OIHW8i8o", 20)),
        (30, 30, 30, ("NCHW", "OIHW", 0)),
        (24, 48, 2, ("NCHW12c", "OIHW12i12o", 0)),
        (6, 12, 6, ("NC1cHW", "OIHW2o", 0)),
        (32, 64, 8, ("NCHW8c", "OIHW4i16o", 0)),
        (17, 9, 1, ("NCHW8c", "OIHW8i9o", 0)),  # pads less than 16
        (1, 5, 1, ("NCHW1c", "OIHW1i5o", 0)),
    ],
)
def test_convolutions(c, o, groups, layouts):
    module = optimize(conv(c, o, groups=groups), ALTER.replace("layout", "layout{target=znver5}", 1))
    (op,) = [op for op in module.walk() if isinstance(op, Conv2dOp)]
    assert (op.data_layout, op.kernel_layout, op.channels) == layouts
    assert sum(isinstance(op, LayoutTransformOp) for op in module.walk()) <= 2


@pytest.mark.parametrize(
    ("options", "block"),
    [("target=znver4", 24), ("target=znver5", 12), ("block=8 target=znver4", 8), ("vector-bits=256 target=znver3", 8)],
)
def test_blocks_of_a_vector_and_a_half_where_halves_cost_half(options: str, block: int) -> None:
    module = optimize(conv(96, 96, groups=4, size=20), ALTER.replace("layout", f"layout{{{options}}}", 1))
    (op,) = [op for op in module.walk() if isinstance(op, Conv2dOp)]
    assert op.data_layout == f"NCHW{block}c"


def test_one_channel_in_and_out_stays_plain():
    module = optimize(conv(1, 1), ALTER)
    assert names(module) == ["conv2d", "relu"]


def test_the_block_follows_the_vector():
    (op,) = [
        op for op in optimize(conv(32, 32), "graph-alter-op-layout{vector-bits=256}").walk() if isinstance(op, Conv2dOp)
    ]
    assert (op.data_layout, op.kernel_layout) == ("NCHW8c", "OIHW8i8o")


def test_a_weight_that_is_no_constant_stays_plain():
    text = """func.func @main(%x: tensor<1x16x4x4xf32>, %w: tensor<16x16x1x1xf32>) -> tensor<1x16x4x4xf32> {
      %0 = graph.conv2d %x, %w : (tensor<1x16x4x4xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x4x4xf32>
      return %0 : tensor<1x16x4x4xf32>
    }"""
    assert names(optimize(text, ALTER)) == ["conv2d"]


def chain(body, result, channels=32, value="%r"):
    p = f"tensor<1x{channels}x4x4xf32>"
    w = f"tensor<{channels}x16x3x3xf32>"
    return f"""func.func @main(%x: tensor<1x16x4x4xf32>, %y: {p}, %m: tensor<1x1x4x4xf32>) -> {result} {{
      %w = graph.param "w" : {w}
      %v = graph.param "v" : tensor<{channels}x1x1xf32>
      %c = graph.conv2d %x, %w {{padding = [1, 1, 1, 1]}} : (tensor<1x16x4x4xf32>, {w}) -> {p}
      {body}
      return {value} : {result}
    }}"""


P, W = "tensor<1x32x4x4xf32>", "tensor<1x32x2x4xf32>"
# body, result type, how many layout_transform ops remain
CHAINS = {
    "residual of a plain picture": (f"%r = graph.add %c, %y : {P}", P, 3),
    "constant per channel": (f"%r = graph.multiply %v, %c : (tensor<32x1x1xf32>, {P}) -> {P}", P, 2),
    "map over H and W": (f"%r = graph.multiply %c, %m : ({P}, tensor<1x1x4x4xf32>) -> {P}", P, 2),
    "pool": (
        f"%r = graph.avg_pool2d %c {{pool_size = [2, 2]}} : ({P}) -> tensor<1x32x3x3xf32>",
        "tensor<1x32x3x3xf32>",
        2,
    ),
    "mean without dims": (f"%r = graph.mean %c {{axes = [2, 3]}} : ({P}) -> tensor<1x32xf32>", "tensor<1x32xf32>", 1),
    "max over rows": (
        f"%r = graph.max %c {{axes = [2], keepdims = true}} : ({P}) -> tensor<1x32x1x4xf32>",
        "tensor<1x32x1x4xf32>",
        2,
    ),
    "concat of channels": (
        f"%r = graph.concatenate %c, %y {{axis = 1}} : ({P}, {P}) -> tensor<1x64x4x4xf32>",
        "tensor<1x64x4x4xf32>",
        3,
    ),
    "concat of rows": (
        f"%r = graph.concatenate %c, %c {{axis = 2}} : ({P}, {P}) -> tensor<1x32x8x4xf32>",
        "tensor<1x32x8x4xf32>",
        2,
    ),
    "window": (
        f"""%0 = graph.slice %c {{begin = [0, 0, 1, 0], end = [1, 32, 4, 4], strides = [1, 1, 2, 1]}} :
          ({P}) -> tensor<1x32x2x4xf32>
      %r = graph.pad %0 {{pad_width = [0, 0, 0, 0, 1, 1, 0, 0], value = 2.0}} : (tensor<1x32x2x4xf32>) -> {P}""",
        P,
        2,
    ),
    "cast and compare": (
        f"""%0 = graph.less %c, %y : ({P}, {P}) -> tensor<1x32x4x4xi1>
      %r = graph.where %0, %c, %y : (tensor<1x32x4x4xi1>, {P}, {P}) -> {P}""",
        P,
        3,
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_families_stay_blocked(name):
    body, result, transforms = CHAINS[name]
    module = optimize(chain(body, result), ALTER)
    found = [op for op in main_function(module).body.block.ops if isinstance(op, LayoutTransformOp)]
    assert len(found) == transforms
    (op,) = [op for op in module.walk() if isinstance(op, Conv2dOp)]
    assert op.data_layout == "NCHW16c"


PLAIN = {
    "slice of channels": f"""%r = graph.slice %c {{begin = [0, 3, 0, 0], end = [1, 19, 4, 4], strides = [1, 1, 1, 1]}} :
      ({P}) -> tensor<1x16x4x4xf32>""",
    "softmax over channels": f"%0 = graph.softmax %c {{axis = 1}} : {P}\n%r = graph.max %0 {{axes = [1]}} : ({P}) -> tensor<1x4x4xf32>",  # noqa: E501
    "bias over columns": f'%b = graph.param "b" : tensor<4xf32>\n%r = graph.bias_add %c, %b {{axis = 3}} : {P}',
}


@pytest.mark.parametrize("name", PLAIN)
def test_other_ops_get_the_plain_layout_back(name):
    result = {"slice of channels": "tensor<1x16x4x4xf32>", "softmax over channels": "tensor<1x4x4xf32>"}.get(name, P)
    optimize(chain(PLAIN[name], result), ALTER)


@pytest.mark.parametrize("op", ["log", "sqrt", "rsqrt", "reciprocal"])
def test_padded_channels_never_become_nan(op):
    # The next convolution reads the padded lanes with weights of zero: 0 * NaN would be NaN.
    p = "tensor<1x30x4x4xf32>"
    text = chain(
        f"""%0 = graph.abs %c : {p}
      %u = graph.param "u" : tensor<16x30x1x1xf32>
      %1 = graph.{op} %0 : {p}
      %2 = graph.divide %y, %0 : {p}
      %3 = graph.add %1, %2 : {p}
      %r = graph.conv2d %3, %u : ({p}, tensor<16x30x1x1xf32>) -> tensor<1x16x4x4xf32>""",
        "tensor<1x16x4x4xf32>",
        channels=30,
    )
    optimize(text, ALTER)


@pytest.mark.parametrize(
    ("units", "layout", "logical"), [(64, "OI32o", 0), (60, "OI32o", 60), (40, "OI16o", 40), (2, "OI2o", 0)]
)
def test_dense_weights_are_packed(units, layout, logical):
    text = f"""func.func @main(%x: tensor<3x7xf32>) -> tensor<3x{units}xf32> {{
      %w = graph.param "w" : tensor<{units}x7xf32>
      %0 = graph.dense %x, %w : (tensor<3x7xf32>, tensor<{units}x7xf32>) -> tensor<3x{units}xf32>
      return %0 : tensor<3x{units}xf32>
    }}"""
    (op,) = [op for op in optimize(text, ALTER).walk() if isinstance(op, DenseOp)]
    assert (op.kernel_layout, op.units) == (layout, logical)


def test_a_value_is_transformed_once_for_many_readers():
    body = f"""%0 = graph.softmax %c : {P}
      %1 = graph.softmax %c {{axis = 2}} : {P}
      %2 = graph.add %0, %1 : {P}
      %r = graph.add %2, %y : {P}"""
    module = optimize(chain(body, P), ALTER)
    assert names(module).count("layout_transform") == 2


def test_fused_regions_are_refused():
    with pytest.raises(UserError, match=r"expected a module without graph\.fused; run graph-defuse-ops"):
        optimize(conv(32, 32), "graph-fuse-ops", "graph-alter-op-layout")
    with pytest.raises(UserError, match="expected a block of at least 2 channels, but got 1"):
        optimize(conv(32, 32), "graph-alter-op-layout{block=1}")


def test_random_shapes_agree():
    rng = np.random.default_rng(3)
    for _ in range(12):
        c, o = (int(v) for v in rng.integers(1, 70, 2))
        optimize(conv(c, o, size=int(rng.integers(1, 7)), attrs="padding = [1, 1, 1, 1]"), "graph-O3")


class Pictures:
    """A random network of convolutions and what stands between them, as text; all pictures are 5x5."""

    def __init__(self, data):
        self.data, self.lines, self.values = data, [], [("%x", data.draw(st.sampled_from([1, 3, 16, 20])))]

    def type(self, channels, size="5x5"):
        return f"tensor<1x{channels}x{size}xf32>"

    def pick(self, channels=None):
        return self.data.draw(st.sampled_from([v for v in self.values if channels in (None, v[1])]))

    def add(self, op, channels):
        name = f"%{len(self.lines)}"
        self.lines.append(f"{name} = {op}")
        self.values.append((name, channels))
        return name

    def param(self, type):
        self.lines.append(f'%{len(self.lines)} = graph.param "p{len(self.lines)}" : {type}')
        return f"%{len(self.lines) - 1}"

    def conv(self, value, channels):
        outputs = self.data.draw(st.sampled_from([1, 5, 8, 16, 24, 30, 32]))
        depthwise = self.data.draw(st.booleans())
        o, i, groups = (channels, 1, channels) if depthwise else (outputs, channels, 1)
        w = self.param(f"tensor<{o}x{i}x3x3xf32>")
        types = f"({self.type(channels)}, tensor<{o}x{i}x3x3xf32>) -> {self.type(o)}"
        self.add(f"graph.conv2d {value}, {w} {{padding = [1, 1, 1, 1], groups = {groups}}} : {types}", o)

    def step(self):
        value, c = self.pick()
        kind = self.data.draw(
            st.sampled_from(["conv", "conv", "unary", "add", "bias", "gate", "concat", "pool", "norm"])
        )
        if kind == "conv":
            self.conv(value, c)
        elif kind == "unary":
            op = self.data.draw(st.sampled_from(["relu", "tanh", "sigmoid", "abs"]))
            self.add(f"graph.{op} {value} : {self.type(c)}", c)
        elif kind == "add":
            other, _ = self.pick(c)
            self.add(f"graph.add {value}, {other} : {self.type(c)}", c)
        elif kind == "bias":
            self.add(f"graph.bias_add {value}, {self.param(f'tensor<{c}xf32>')} : {self.type(c)}", c)
        elif kind == "gate":
            small = self.type(c, "1x1")
            mean = f"graph.mean {value} {{axes = [2, 3], keepdims = true}} : ({self.type(c)}) -> {small}"
            self.lines.append(f"%{len(self.lines)} = {mean}")
            gate = f"%{len(self.lines) - 1}"
            self.add(f"graph.multiply {value}, {gate} : ({self.type(c)}, {small}) -> {self.type(c)}", c)
        elif kind == "concat":
            other, d = self.pick()
            types = f"({self.type(c)}, {self.type(d)}) -> {self.type(c + d)}"
            self.add(f"graph.concatenate {value}, {other} {{axis = 1}} : {types}", c + d)
        elif kind == "pool":
            self.add(f"graph.max_pool2d {value} {{pool_size = [3, 3], padding = [1, 1, 1, 1]}} : {self.type(c)}", c)
        else:
            scale = self.param(f"tensor<{c}x1x1xf32>")
            self.add(f"graph.multiply {value}, {scale} : ({self.type(c)}, tensor<{c}x1x1xf32>) -> {self.type(c)}", c)

    def text(self):
        (name, c), (_, inputs) = self.values[-1], self.values[0]
        self.lines.append(f"%out = graph.tanh {name} : {self.type(c)}")
        body = "\n".join(self.lines)
        return (
            f"func.func @main(%x: {self.type(inputs)}) -> {self.type(c)} {{\n{body}\nreturn %out : {self.type(c)}\n}}"
        )


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(
    st.data(),
    st.sampled_from(["graph-O1", "graph-O2", "graph-O3", "graph-alter-op-layout{block=8},graph-fold-constant"]),
)
def test_random_networks_agree(data, pipeline):
    pictures = Pictures(data)
    for _ in range(data.draw(st.integers(1, 8))):
        pictures.step()
    optimize(pictures.text(), pipeline)


def test_another_block_is_not_a_reshape():
    module = optimize(
        """func.func @main(%x: tensor<1x3x2x3x8xf32>) -> tensor<1x6x2x3x4xf32> {
          %0 = graph.layout_transform %x {src = "NCHW8c", dst = "NCHW4c"} :
            (tensor<1x3x2x3x8xf32>) -> tensor<1x6x2x3x4xf32>
          return %0 : tensor<1x6x2x3x4xf32>
        }""",
        "graph-canonicalize",
    )
    assert names(module) == ["layout_transform"]


BRANCHES = """func.func @main(%x: tensor<1x32x4x4xf32>) -> tensor<1x32x4x4xf32> {
  %0 = graph.constant dense<0.0> : tensor<f32>
  %1 = graph.sum %x {axes = [0, 1, 2, 3]} : (tensor<1x32x4x4xf32>) -> tensor<f32>
  %c = graph.greater %1, %0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %r = graph.if %c : tensor<i1> reads(%x : tensor<1x32x4x4xf32>) -> (tensor<1x32x4x4xf32>) {
  ^bb0(%a: tensor<1x32x4x4xf32>):
    %w = graph.param "w" : tensor<32x32x3x3xf32>
    %2 = graph.conv2d %a, %w {padding = [1, 1, 1, 1]} :
      (tensor<1x32x4x4xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x4x4xf32>
    %3 = graph.relu %2 : tensor<1x32x4x4xf32>
    graph.yield %3 : tensor<1x32x4x4xf32>
  } else {
  ^bb0(%a: tensor<1x32x4x4xf32>):
    graph.yield %a : tensor<1x32x4x4xf32>
  }
  return %r : tensor<1x32x4x4xf32>
}"""


@pytest.mark.parametrize(
    ("passes", "text"),
    [
        ("graph-convert-layout{desired=conv2d:NHWC}", 'data_layout = "NHWC"'),
        ("graph-alter-op-layout{block=16}", 'data_layout = "NCHW16c"'),
        ("graph-to-mixed-precision{precision=bf16}", 'out_dtype = "float32"'),
    ],
)
def test_layouts_and_types_change_inside_of_control_flow(passes, text):
    module = parse_module(BRANCHES)
    store = random_store(module)
    x = np.random.default_rng(0).standard_normal((1, 32, 4, 4)).astype(np.float32)
    inputs = [x * np.sign(x.sum())]
    before = run_function(main_function(module), inputs, store)
    attach_store(module, store)
    run_passes(module, make_context(), [passes], verify=True)
    after = run_function(main_function(module), inputs, store)
    assert text in str(module)
    np.testing.assert_allclose(after[0], before[0], atol=0.02 * np.abs(before[0]).max())


def test_the_budget_of_winograd_is_none_of_the_pass() -> None:
    """`--validate-each` lets a pass with a field `error_growth` enlarge rounding errors; layouts change no value."""
    assert not hasattr(AlterOpLayoutPass(), "error_growth")


def test_a_negative_budget_is_refused() -> None:
    module = parse_module("func.func @main() { return }", "m.mlir")
    with pytest.raises(UserError, match="expected a winograd-error of at least 0, but got -1"):
        AlterOpLayoutPass(winograd_error=-1.0).apply(make_context(), module)


@pytest.mark.parametrize("op", ["avg_pool2d", "max_pool2d"])
@pytest.mark.parametrize(
    ("channels", "window", "stride", "expected"),
    [(32, 7, 3, "NCHW16c"), (32, 4, 4, "NCHW"), (32, 3, 2, "NCHW"), (20, 7, 3, "NCHW")],
)
def test_pools_whose_windows_overlap_at_a_long_stride(op, channels, window, stride, expected):
    size = (41 - window) // stride + 1
    x, y = f"tensor<1x{channels}x41x41xf32>", f"tensor<1x{channels}x{size}x{size}xf32>"
    text = f"""func.func @main(%x: {x}) -> {y} {{
      %r = graph.{op} %x {{pool_size = [{window}, {window}], strides = [{stride}, {stride}]}} : ({x}) -> {y}
      return %r : {y}
    }}"""
    module = optimize(text, "graph-alter-op-layout{block=16}")
    assert [one.layout for one in module.walk() if isinstance(one, AvgPool2dOp | MaxPool2dOp)] == [expected]
