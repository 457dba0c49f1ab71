"""Pointwise ops of one's own compute in every layout and fuse like built-in ones; others are refused."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native import parse, through
from xdsl.utils.exceptions import VerifyException

import mlc
from mlc import te
from mlc.dialects.graph import DenseOp
from mlc.dialects.graph.base import BROADCAST, ELEMENTWISE, GraphOp, Sample
from mlc.dialects.graph.op_attributes import Float
from mlc.dialects.graph.pointwise import is_total
from mlc.dialects.graph.types import Tensor, broadcast, shape_of, tensor
from mlc.lowering.graph_to_te.table import lowering
from mlc.support.errors import UserError


class Pointwise(GraphOp):
    """The base of the ops of this file: results by numpy's broadcasting."""

    def infer_types(self) -> list[Tensor]:
        return [tensor(broadcast(self.shapes), self.input_types[0].element_type)]


@pytest.fixture
def own() -> None:
    """`my.leaky` and `my.mix`, an activation and a mean of two tensors."""

    class LeakyOp(Pointwise):
        name = "my.leaky"
        kind = ELEMENTWISE
        slope = Float(0.25)

        @classmethod
        def samples(cls) -> list[Sample]:
            return [Sample((tensor((2, 8)),))]

    class MixOp(Pointwise):
        name = "my.mix"
        kind = BROADCAST
        arity = (2, 2)

        @classmethod
        def samples(cls) -> list[Sample]:
            return [Sample((tensor((2, 8)), tensor((8,))))]

    @lowering(LeakyOp)
    def leaky(op: LeakyOp, x: te.Tensor) -> te.Tensor:
        return te.compute(x.shape, lambda *i: te.maximum(x[i], x[i] * op.slope), "leaky")

    @lowering(MixOp)
    def mix(op: MixOp, x: te.Tensor, y: te.Tensor) -> te.Tensor:
        def place(t: te.Tensor, i: tuple[Any, ...]) -> tuple[Any, ...]:
            own = i[len(i) - len(t.shape) :]
            return tuple(0 if size == 1 else at for size, at in zip(t.shape, own, strict=True))

        shape = shape_of(op.type)
        return te.compute(shape, lambda *i: (x[place(x, i)] + y[place(y, i)]) * 0.5, "mix")


def conv(c: int, o: int, name: str, x: str, size: int = 9) -> str:
    types = f"(tensor<2x{c}x{size}x{size}xf32>, tensor<{o}x{c}x3x3xf32>) -> tensor<2x{o}x{size}x{size}xf32>"
    return f"{name} = graph.conv2d {x}, {name}w {{padding = [1, 1, 1, 1]}} : {types}"


def weight(name: str, shape: str, seed: int) -> str:
    sizes = [int(size) for size in shape.split("x")]
    values = np.random.default_rng(seed).standard_normal(sizes).round(2)
    return f"{name} = graph.constant dense<{values.tolist()}> : tensor<{shape}xf32>"


def convolutions(channels: int, op: str = "my.leaky") -> str:
    c, size = channels, 9
    t = f"tensor<2x{c}x{size}x{size}xf32>"
    return f"""func.func @main(%x: {t}) -> {t} {{
  {weight("%aw", f"{c}x{c}x3x3", 1)}
  {weight("%bw", f"{c}x{c}x3x3", 2)}
  {conv(c, c, "%a", "%x")}
  %0 = {op} %a : {t}
  {conv(c, c, "%b", "%0")}
  %1 = {op} %b : {t}
  return %1 : {t}
}}"""


def dense(op: str = "my.leaky") -> str:
    return f"""func.func @main(%x: tensor<5x16xf32>) -> tensor<5x24xf32> {{
  {weight("%w", "24x16", 1)}
  %a = graph.dense %x, %w : (tensor<5x16xf32>, tensor<24x16xf32>) -> tensor<5x24xf32>
  %0 = {op} %a : tensor<5x24xf32>
  return %0 : tensor<5x24xf32>
}}"""


def two_operands(other: str, op: str = "my.mix") -> str:
    """A convolution, and a binary op of it and of a tensor of another shape."""
    t = "tensor<2x16x9x9xf32>"
    return f"""func.func @main(%x: {t}, %y: tensor<{other}xf32>) -> {t} {{
  {weight("%aw", "16x16x3x3", 1)}
  {weight("%bw", "16x16x3x3", 2)}
  {conv(16, 16, "%a", "%x")}
  %0 = {op} %a, %y : ({t}, tensor<{other}xf32>) -> {t}
  {conv(16, 16, "%b", "%0")}
  return %b : {t}
}}"""


MODELS = {
    "convolutions": (convolutions(16), "my.leaky", "graph.relu"),
    "padded channels": (convolutions(15), "my.leaky", "graph.relu"),
    "dense": (dense(), "my.leaky", "graph.relu"),
    **{
        f"mix {other}": (two_operands(other), "my.mix", "graph.add")
        for other in ("2x16x9x9", "16x1x1", "1x16x1x1", "9x1", "9", "1", "2x1x9x9")
    },
}
PIPELINES = [
    ("graph-O3",),
    ("graph-O2",),
    ("graph-convert-layout{desired=conv2d:NHWC}", "graph-fuse-ops"),
    ("graph-fuse-ops{mode=tvm}",),
]


def leaky_of(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, x * 0.25)


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda passes: passes[0])
@pytest.mark.parametrize("name", MODELS)
def test_an_own_op_leaves_the_ir_of_a_built_in_one(name: str, pipeline: tuple[str, ...], own: None) -> None:
    text, mine, theirs = MODELS[name]
    got, expected = (
        re.sub(r'_[0-9a-f]{8}\b|graph.hash = "\w+"', "", str(through(parse(one), *pipeline)))
        for one in (text, text.replace(mine, theirs))
    )
    short = theirs.removeprefix("graph.")
    assert got.replace(f"{mine} ", f"{theirs} ").replace(mine, short) == expected


def convolved(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    padded, (rows, columns) = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), x.shape[2:]
    taps = [(r, s) for r in range(3) for s in range(3)]
    windows = np.stack([padded[:, :, r : r + rows, s : s + columns] for r, s in taps])
    return np.einsum("tnchw,oct->nohw", windows, w.reshape(*w.shape[:2], 9))


def weights(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).round(2).astype(np.float32)


def run(text: str, folder: Path, *inputs: np.ndarray) -> np.ndarray:
    path = folder / "m.mlir"
    path.write_text(text)
    named = {f"input{k}": array for k, array in enumerate(inputs)}
    (result,) = mlc.compile(path, threads=1)(named).values()
    return result


@pytest.mark.parametrize("channels", [16, 15])
def test_convolutions_around_an_own_activation(channels: int, own: None, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, channels, 9, 9), np.float32)
    first, second = (weights((channels, channels, 3, 3), seed) for seed in (1, 2))
    expected = leaky_of(convolved(leaky_of(convolved(x, first)), second))
    got = run(convolutions(channels), tmp_path, x)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("other", ["2x16x9x9", "16x1x1", "9"])
def test_an_own_op_of_two_operands(other: str, own: None, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 16, 9, 9), np.float32)
    y = rng.standard_normal([int(size) for size in other.split("x")], np.float32)
    expected = convolved((convolved(x, weights((16, 16, 3, 3), 1)) + y) / 2, weights((16, 16, 3, 3), 2))
    np.testing.assert_allclose(run(two_operands(other), tmp_path, x, y), expected, rtol=1e-4, atol=1e-3)


def test_a_dense_layer_with_an_own_activation(own: None, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((5, 16), np.float32)
    expected = leaky_of(x @ weights((24, 16), 1).T)
    np.testing.assert_allclose(run(dense(), tmp_path, x), expected, rtol=1e-5, atol=1e-5)


ELEMENTS: dict[str, tuple[Any, bool]] = {
    "relu": (lambda x: te.maximum(x, 0.0), True),
    "sigmoid": (lambda x: 1.0 / (te.exp(-x) + 1.0), True),
    "root": (lambda x: te.sqrt(x * x + 1.0), True),
    "half": (lambda x: x / 2.0, True),
    "log": (lambda x: te.log(x), False),
    "quotient": (lambda x: 1.0 / x, False),
    "quotient of a square": (lambda x: 1.0 / (x * x), False),
    "root of anything": (lambda x: te.sqrt(x), False),
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_channels_that_pad_a_block_stay_finite(name: str, tmp_path: Path) -> None:
    element, total = ELEMENTS[name]

    class ElementOp(Pointwise):
        name = "my.leaky"
        kind = ELEMENTWISE

    lowering(ElementOp)(lambda op, x: te.compute(x.shape, lambda *i: element(x[i]), "element"))
    module = parse(convolutions(15))
    (op, *_) = [op for op in module.walk() if isinstance(op, ElementOp)]
    assert is_total(op) == total
    blocked = str(through(module, "graph-alter-op-layout"))
    assert blocked.count('dst = "NCHW"') == (1 if total else 2)


def refused(kind: int, computed: Any, **declared: Any) -> str:
    """The message on an op of this kind with this te, registered with a sample."""

    def samples(cls: type[GraphOp]) -> list[Sample]:
        return [Sample((tensor((4, 8)),))]

    body = {"name": "my.wrong", "kind": kind, "samples": classmethod(samples), **declared}
    with pytest.raises(UserError) as error:
        lowering(type("WrongOp", (Pointwise,), body))(lambda op, x: te.compute(x.shape, lambda *i: computed(x, i), "y"))
    return str(error.value)


def test_a_te_that_reads_other_places_is_refused() -> None:
    flipped = refused(ELEMENTWISE, lambda x, i: x[i[0], 7 - i[1]])
    assert "expected the te of my.wrong to be pointwise, as its kind ELEMENTWISE says, but stage 'y' reads" in flipped
    assert "declare kind = INJECTIVE" in flipped
    assert "reads an operand at [0, i1]" in refused(ELEMENTWISE, lambda x, i: x[0, i[1]])
    assert "declare kind = BROADCAST" not in refused(BROADCAST, lambda x, i: x[i[0] // 2, i[1]])


def test_a_te_that_computes_with_its_place_must_say_so() -> None:
    message = refused(ELEMENTWISE, lambda x, i: x[i] + te.cast(i[1], "float32"))
    assert 'computes with its place; declare layout_rule = "fixed"' in message
    body = {"name": "my.place", "kind": ELEMENTWISE, "layout_rule": "fixed"}
    placed = type("PlacedOp", (Pointwise,), body)
    lowering(placed)(lambda op, x: te.compute(x.shape, lambda *i: x[i] + te.cast(i[1], "float32"), "y"))


def test_a_te_that_computes_with_sizes_must_say_so() -> None:
    message = refused(ELEMENTWISE, lambda x, i: x[i] * (1.0 / x.shape[1]))
    assert 'computes other scalars for operands of other sizes; declare layout_rule = "fixed"' in message


def test_a_sum_is_not_pointwise() -> None:
    class SumOp(Pointwise):
        name = "my.wrong"
        kind = ELEMENTWISE

        @classmethod
        def samples(cls) -> list[Sample]:
            return [Sample((tensor((4, 8)),))]

    def total(op: GraphOp, x: te.Tensor) -> te.Tensor:
        k = te.reduce_axis(8, "k")
        sums = te.compute((4,), lambda i: te.sum(x[i, k], axis=k), "sums")
        return te.compute(x.shape, lambda i, j: x[i, j] / sums[i], "y")

    with pytest.raises(UserError, match=r"stage 'sums' reduces over axes; declare kind = REDUCTION or OPAQUE"):
        lowering(SumOp)(total)


def test_it_is_refused_at_lowering_without_samples() -> None:
    body = {"name": "my.leaky", "kind": ELEMENTWISE}
    lowering(type("FlippedOp", (Pointwise,), body))(
        lambda op, x: te.compute(x.shape, lambda i, j: x[i, 23 - j], "flipped")
    )
    with pytest.raises(UserError, match=r"expected the te of my.leaky to be pointwise"):
        through(parse(dense()), "graph-O3", "convert-graph-to-te")


@pytest.mark.parametrize("where", ["te", "infer_types"])
def test_an_op_that_is_written_for_one_rank_keeps_the_plain_layout(where: str, tmp_path: Path) -> None:
    def infer_types(op: GraphOp) -> list[Tensor]:
        if where == "infer_types":
            _, _, _, _ = op.shapes[0]
        return [op.input_types[0]]

    body = {"name": "my.leaky", "kind": ELEMENTWISE, "infer_types": infer_types}
    lowering(type("PictureOp", (GraphOp,), body))(
        lambda op, x: te.compute(x.shape, lambda n, c, h, w: te.maximum(x[n, c, h, w], x[n, c, h, w] * 0.25), "picture")
    )
    x = np.random.default_rng(0).standard_normal((2, 16, 9, 9), np.float32)
    first, second = (weights((16, 16, 3, 3), seed) for seed in (1, 2))
    expected = leaky_of(convolved(leaky_of(convolved(x, first)), second))
    np.testing.assert_allclose(run(convolutions(16), tmp_path, x), expected, rtol=1e-4, atol=1e-3)


def test_an_op_that_cannot_be_made_is_no_reader_of_its_operands(own: None) -> None:
    module = parse(dense())
    (layer, *_) = [op for op in module.walk() if isinstance(op, DenseOp)]
    before = len(list(layer.operands[0].uses))
    with pytest.raises(VerifyException):
        DenseOp.make(layer.operands[0], layer.results[0])
    assert len(list(layer.operands[0].uses)) == before
